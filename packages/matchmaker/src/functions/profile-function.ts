// SPDX-License-Identifier: Apache-2.0
import type { MatchProfile, MatchFunction as ProfileChoice } from "@dm-env-rpc/protocol/matchmaker";
import { invalid } from "../errors.ts";
import type { MatchContext, MatchFunction, MatchProposal } from "./match-function.ts";

/** What a match function of the operator's own returns: matches at once, or as they are found. */
export type CustomProposals = Iterable<MatchProposal> | AsyncIterable<MatchProposal>;

/** What a match function of the operator's own decides upon. */
export interface CustomMatchContext extends MatchContext {
  /** Aborts when its time is over (the setting `matchFunctionMs`), or its proposals are not wanted any more. */
  readonly signal: AbortSignal;
}

/**
 * A match function of the operator's own. It runs beside the matchmaker's other work, a call of each profile at a time and for
 * `matchFunctionMs` at most: then its `signal` aborts, and what it proposed until then counts. One that throws, or takes too
 * long, loses its turn and is called again after a while; other profiles are not disturbed. It shares the matchmaker's
 * thread: what computes for long belongs into a worker thread.
 */
export type CustomMatchFunction = (
  context: CustomMatchContext,
) => CustomProposals | Promise<CustomProposals>;

/** Match functions of the operator's own, by the name that profiles call them. */
export type MatchFunctions = Readonly<Record<string, CustomMatchFunction>>;

/** A match function as a profile has it. */
export type ProfileMatch =
  | { readonly isCustom: false; readonly run: MatchFunction }
  | { readonly isCustom: true; readonly run: CustomMatchFunction };

/** What a profile's match function is. */
export interface ProfileFunction {
  readonly match: ProfileMatch;
  /** Agents that it puts into a match. */
  readonly seats: number;
  /** Agents of the largest party that it can match. */
  readonly largestParty: number;
  /** The pool of each team, where teams have one. */
  readonly poolOfTeam: ReadonlyMap<string, string>;
  /** The role of each team, where teams have one. */
  readonly roleOfTeam?: ReadonlyMap<string, string>;
}

/** A kind of match function: a case of the protocol's `MatchFunction`. */
export type FunctionKind = NonNullable<ProfileChoice["function"]["case"]>;

/** What a profile says of a function of that kind. */
export type ParametersOf<K extends FunctionKind> = Extract<
  ProfileChoice["function"],
  { readonly case: K }
>["value"];

/**
 * Makes the function that a profile names.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for one that can never make a match.
 */
export type FunctionReader<K extends FunctionKind> = (
  parameters: ParametersOf<K>,
  profile: MatchProfile,
  custom: MatchFunctions,
) => ProfileFunction;

/** Most agents of a match. */
const maxCount = 10_000;

/** @throws DmEnvRpcError INVALID_ARGUMENT for a number of agents that no match can have. */
export function checkCount(what: string, count: number): void {
  if (count >= 1 && count <= maxCount) {
    return;
  }
  throw invalid(what, `a number from 1 to ${maxCount}`, String(count));
}
