// SPDX-License-Identifier: Apache-2.0
import { allTickets, everyone, type MatchFunction } from "./match-function.ts";
import { areSolos, PartyQueue } from "./parties.ts";
import { checkCount, type FunctionReader } from "./profile-function.ts";

/** Matches tickets of any pool, in matching order, in groups that have `count` agents in total. */
export function byCount(count: number): MatchFunction {
  return function* ({ pools }) {
    const tickets = allTickets(pools);
    let start = 0;
    for (; start + count <= tickets.length; start += count) {
      const group = tickets.slice(start, start + count);
      if (!areSolos(group)) {
        break;
      }
      yield { teams: { [everyone]: group } };
    }
    // The rest has parties: tickets must be chosen so that their agents add up to `count`.
    const rest = tickets.slice(start);
    if (areSolos(rest)) {
      return;
    }
    const queue = new PartyQueue(rest);
    for (let group = queue.take(count); group !== undefined; group = queue.take(count)) {
      yield { teams: { [everyone]: group } };
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
