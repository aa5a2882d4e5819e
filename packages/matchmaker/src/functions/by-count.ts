// SPDX-License-Identifier: Apache-2.0
import { allTickets, everyone, type MatchFunction } from "./match-function.ts";
import { areSolos, PartyQueue } from "./parties.ts";
import { checkCount, type FunctionReader } from "./profile-function.ts";

/** Matches tickets of any pool, in matching order, in groups that have `count` agents in total. */
export function byCount(count: number): MatchFunction {
  return function* ({ pools }) {
    const tickets = allTickets(pools);
    if (!areSolos(tickets)) {
      const queue = new PartyQueue(tickets);
      for (let group = queue.take(count); group !== undefined; group = queue.take(count)) {
        yield { teams: { [everyone]: group } };
      }
      return;
    }
    for (let start = 0; start + count <= tickets.length; start += count) {
      yield { teams: { [everyone]: tickets.slice(start, start + count) } };
    }
  };
}

/** Reads `by_count` of a profile. */
export const readByCount: FunctionReader<"byCount"> = ({ count }) => {
  checkCount("by_count.count", count);
  return {
    match: { isCustom: false, run: byCount(count) },
    seats: count,
    largestParty: count,
    poolOfTeam: new Map(),
  };
};
