// SPDX-License-Identifier: Apache-2.0
import type { MatchProfile } from "@dm-env-rpc/protocol/matchmaker";
import { invalid, shorten } from "../errors.ts";
import { byCount } from "./by-count.ts";
import type { MatchFunction } from "./match-function.ts";
import { skillWindow } from "./skill-window.ts";
import { teams } from "./teams.ts";

/** Most tickets of a match. */
const maxCount = 10_000;

/** What a profile's match function is. */
export interface ProfileFunction {
  readonly match: MatchFunction;
  /** Tickets that it puts into a match; 0 where only it knows. */
  readonly seats: number;
  /** The pool of each team, where teams have one. */
  readonly poolOfTeam: ReadonlyMap<string, string>;
}

/**
 * The function that a profile names.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for one that can never make a match, or that nobody knows.
 */
export function matchFunctionOf(
  profile: MatchProfile,
  custom: Readonly<Record<string, MatchFunction>>,
): ProfileFunction {
  const chosen = profile.matchFunction?.function;
  switch (chosen?.case) {
    case "byCount": {
      const { count } = chosen.value;
      checkCount("by_count.count", count);
      return { match: byCount(count), seats: count, poolOfTeam: new Map() };
    }
    case "teams": {
      const sizes = chosen.value.teams;
      const pools = new Set(profile.pools.map(({ name }) => name));
      if (sizes.length === 0) throw invalid("teams", "at least one team", "none");
      const names = new Set<string>();
      for (const { name, pool, size } of sizes) {
        checkCount(`size of team "${shorten(name)}"`, size);
        if (name === "" || names.has(name)) {
          throw invalid("teams", "a name for each team", `"${shorten(name)}"`);
        }
        if (!pools.has(pool)) {
          const known = [...pools].map((known) => `"${known}"`).join(", ");
          throw invalid(`pool of team "${name}"`, `one of ${known}`, `"${shorten(pool)}"`);
        }
        names.add(name);
      }
      const seats = sizes.reduce((sum, { size }) => sum + size, 0);
      checkCount("sum of the teams' sizes", seats);
      return {
        match: teams(sizes),
        seats,
        poolOfTeam: new Map(sizes.map(({ name, pool }) => [name, pool])),
      };
    }
    case "skillWindow": {
      const { count, doubleArg, window, widenPerSecond, maxWindow } = chosen.value;
      checkCount("skill_window.count", count);
      if (doubleArg === "") throw invalid("skill_window.double_arg", "a name", "none");
      for (const [name, value] of Object.entries({ window, widenPerSecond, maxWindow })) {
        if (value !== undefined && !(value >= 0)) {
          throw invalid(`skill_window ${name}`, "a number of at least 0", String(value));
        }
      }
      const options = { count, double: doubleArg, window, widenPerSecond, maxWindow };
      return { match: skillWindow(options), seats: count, poolOfTeam: new Map() };
    }
    case "custom": {
      const { name, parameters = {} } = chosen.value;
      const match = Object.hasOwn(custom, name) ? custom[name] : undefined;
      if (match === undefined) {
        const known = Object.keys(custom).map((known) => `"${known}"`);
        throw invalid(
          "custom match function",
          known.length === 0
            ? "one that the matchmaker was given, and it was given none"
            : `one of ${known.join(", ")}`,
          `"${shorten(name)}"`,
        );
      }
      checkCount("seats, which a custom match function needs,", profile.seats);
      return {
        match: (context) => match({ ...context, parameters }),
        seats: profile.seats,
        poolOfTeam: new Map(),
      };
    }
    default:
      throw invalid("match_function", "by_count, teams, skill_window or custom", "none");
  }
}

function checkCount(what: string, count: number): void {
  if (count >= 1 && count <= maxCount) return;
  throw invalid(what, `a number from 1 to ${maxCount}`, String(count));
}
