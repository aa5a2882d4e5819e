// SPDX-License-Identifier: Apache-2.0
import type { MatchProfile, MatchFunction as ProfileChoice } from "@dm-env-rpc/protocol/matchmaker";
import { invalid } from "../errors.ts";
import type { MatchFunction } from "./match-function.ts";

/** Match functions of the operator's own, by the name that profiles call them. */
export type MatchFunctions = Readonly<Record<string, MatchFunction>>;

/** What a profile's match function is. */
export interface ProfileFunction {
  readonly match: MatchFunction;
  /** Tickets that it puts into a match; 0 where only it knows. */
  readonly seats: number;
  /** The pool of each team, where teams have one. */
  readonly poolOfTeam: ReadonlyMap<string, string>;
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

/** Most tickets of a match. */
const maxCount = 10_000;

/** @throws DmEnvRpcError INVALID_ARGUMENT for a number of tickets that no match can have. */
export function checkCount(what: string, count: number): void {
  if (count >= 1 && count <= maxCount) return;
  throw invalid(what, `a number from 1 to ${maxCount}`, String(count));
}
