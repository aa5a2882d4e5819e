// SPDX-License-Identifier: Apache-2.0
import { invalid } from "../errors.ts";
import {
  allTickets,
  byAge,
  everyone,
  type MatchFunction,
  type WaitingTicket,
} from "./match-function.ts";
import { checkCount, type FunctionReader } from "./profile-function.ts";

/** How `skillWindow` tells who is close to whom. */
export interface SkillWindowOptions {
  /** Tickets of a match. */
  readonly count: number;
  /** The name of the double that is the skill; tickets without it count as 0. */
  readonly double: string;
  /** How far apart the skills of a match may be at first. */
  readonly window: number;
  /** By how much that grows for each second that the longest waiting ticket of the match has waited. */
  readonly widenPerSecond: number;
  /** Where it stops growing. Default: nowhere. */
  readonly maxWindow?: number | undefined;
}

/**
 * Matches tickets whose skills lie within a window that widens with waiting time.
 *
 * Tickets are taken in the order of their skills, so that each has the nearest
 * neighbours; how wide the window is, the longest waiting ticket among them says.
 */
export function skillWindow(options: SkillWindowOptions): MatchFunction {
  const { count, double, window, widenPerSecond, maxWindow = Number.POSITIVE_INFINITY } = options;
  const skill = ({ search }: WaitingTicket): number =>
    Object.hasOwn(search.doubles, double) ? (search.doubles[double] ?? 0) : 0;
  return function* ({ pools, nowMs }) {
    const tickets = allTickets(pools)
      .map((ticket) => ({ ticket, skill: skill(ticket) }))
      .sort((a, b) => a.skill - b.skill || byAge(a.ticket, b.ticket));
    for (let start = 0; start + count <= tickets.length; ) {
      const group = tickets.slice(start, start + count);
      const spread = (group.at(-1)?.skill ?? 0) - (group[0]?.skill ?? 0);
      const oldest = Math.min(...group.map(({ ticket }) => ticket.createdMs));
      const waitedSeconds = Math.max(0, nowMs - oldest) / 1_000;
      if (spread <= Math.min(maxWindow, window + widenPerSecond * waitedSeconds)) {
        yield { teams: { [everyone]: group.map(({ ticket }) => ticket) }, score: -spread };
        start += count;
      } else {
        start += 1;
      }
    }
  };
}

/** Reads `skill_window` of a profile. */
export const readSkillWindow: FunctionReader<"skillWindow"> = (parameters) => {
  const { count, doubleArg, window, widenPerSecond, maxWindow } = parameters;
  checkCount("skill_window.count", count);
  if (doubleArg === "") {
    throw invalid("skill_window.double_arg", "a name", "none");
  }
  for (const [name, value] of Object.entries({ window, widenPerSecond, maxWindow })) {
    if (value !== undefined && !(value >= 0)) {
      throw invalid(`skill_window ${name}`, "a number of at least 0", String(value));
    }
  }
  const options = { count, double: doubleArg, window, widenPerSecond, maxWindow };
  return {
    match: { isCustom: false, run: skillWindow(options) },
    seats: count,
    poolOfTeam: new Map(),
  };
};
