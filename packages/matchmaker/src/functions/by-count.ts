// SPDX-License-Identifier: Apache-2.0
import { allTickets, type MatchFunction } from "./match-function.ts";

/** The team of matches that have only one. */
export const everyone = "everyone";

/** Matches so many tickets of any pool, the oldest first. */
export function byCount(count: number): MatchFunction {
  return function* ({ pools }) {
    const tickets = allTickets(pools);
    for (let start = 0; start + count <= tickets.length; start += count) {
      yield { teams: { [everyone]: tickets.slice(start, start + count) } };
    }
  };
}
