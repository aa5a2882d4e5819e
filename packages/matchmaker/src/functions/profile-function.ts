// SPDX-License-Identifier: Apache-2.0
import type { MatchProfile, MatchFunction as ProfileChoice } from "@dm-env-rpc/protocol/matchmaker";
import { invalid } from "../errors/errors.ts";
import type { MatchContext, MatchFunction, MatchProposal } from "./match-function.ts";

/** Result of a custom match function: proposed matches, which may be found asynchronously. */
export type CustomProposals = Iterable<MatchProposal> | AsyncIterable<MatchProposal>;

/** Input of a custom match function. */
export interface CustomMatchContext extends MatchContext {
  /**
   * Aborts when the time of the function is over (the setting `matchFunctionMs`), or its proposals are
   * no longer needed.
   */
  readonly signal: AbortSignal;
}

/**
 * A custom match function. It runs concurrently with the matchmaker's other work. After
 * `matchFunctionMs` its `signal` aborts, and the proposals that it has made are used. A function that
 * throws, or takes too long, is called again after a while; other profiles are not affected. A profile
 * waits for one call at a time, but earlier calls that took too long may still be pending: the function
 * must be reentrant. It shares the matchmaker's thread, which it blocks while it computes: run a function
 * with long computations by `workerFunction`.
 */
export type CustomMatchFunction = (
  context: CustomMatchContext,
) => CustomProposals | Promise<CustomProposals>;

/** Custom match functions, by the name that profiles use. */
export type MatchFunctions = Readonly<Record<string, CustomMatchFunction>>;

/** The match function of a profile. */
export type ProfileMatch =
  | { readonly isCustom: false; readonly run: MatchFunction }
  | { readonly isCustom: true; readonly run: CustomMatchFunction };

/** A profile's match function with its properties. */
export interface ProfileFunction {
  readonly match: ProfileMatch;
  /** Number of agents in each match; for a custom function, the largest number. */
  readonly seats: number;
  /** Size of the largest party that it can match. */
  readonly largestParty: number;
  /** The pool of each team, if teams have one. */
  readonly poolOfTeam: ReadonlyMap<string, string>;
  /** The role of each team, if teams have one. */
  readonly roleOfTeam?: ReadonlyMap<string, string>;
}

/** A kind of match function: a case of the protocol's `MatchFunction`. */
export type FunctionKind = NonNullable<ProfileChoice["function"]["case"]>;

/** Parameters in a profile for a function of one kind. */
export type ParametersOf<K extends FunctionKind> = Extract<
  ProfileChoice["function"],
  { readonly case: K }
>["value"];

/**
 * Creates the function that a profile names.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT if the function can never make a match.
 */
export type FunctionReader<K extends FunctionKind> = (
  parameters: ParametersOf<K>,
  profile: MatchProfile,
  custom: MatchFunctions,
) => ProfileFunction;

/** Maximum number of agents in a match. */
const maxCount = 10_000;

/** @throws DmEnvRpcError INVALID_ARGUMENT if no match can have this number of agents. */
export function checkCount(what: string, count: number): void {
  if (count >= 1 && count <= maxCount) {
    return;
  }
  throw invalid(what, `a number from 1 to ${maxCount}`, String(count));
}
