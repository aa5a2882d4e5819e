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

/**
 * Makes the function that a profile names, or undefined where it names another kind.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for one that can never make a match.
 */
export type FunctionReader = (
  chosen: ProfileChoice["function"],
  profile: MatchProfile,
  custom: MatchFunctions,
) => ProfileFunction | undefined;

/** Most tickets of a match. */
const maxCount = 10_000;

/** @throws DmEnvRpcError INVALID_ARGUMENT for a number of tickets that no match can have. */
export function checkCount(what: string, count: number): void {
  if (count >= 1 && count <= maxCount) return;
  throw invalid(what, `a number from 1 to ${maxCount}`, String(count));
}
