// SPDX-License-Identifier: Apache-2.0
import { allTickets, everyone, type MatchFunction } from "./match-function.ts";
import { checkCount, type FunctionReader } from "./profile-function.ts";

/** Matches so many tickets of any pool, the oldest first. */
export function byCount(count: number): MatchFunction {
  return function* ({ pools }) {
    const tickets = allTickets(pools);
    for (let start = 0; start + count <= tickets.length; start += count) {
      yield { teams: { [everyone]: tickets.slice(start, start + count) } };
    }
  };
}

/** Reads `by_count` of a profile. */
export const readByCount: FunctionReader<"byCount"> = ({ count }) => {
  checkCount("by_count.count", count);
  return { match: { isCustom: false, run: byCount(count) }, seats: count, poolOfTeam: new Map() };
};
