// SPDX-License-Identifier: Apache-2.0
import { invalid } from "../errors.ts";
import {
  allTickets,
  byTurn,
  everyone,
  type MatchFunction,
  type WaitingTicket,
} from "./match-function.ts";
import { areSolos, partySizeOf } from "./parties.ts";
import { checkCount, type FunctionReader } from "./profile-function.ts";

/** Options of `skillWindow`. */
export interface SkillWindowOptions {
  /** Number of agents in each match. */
  readonly count: number;
  /** Name of the double that is the skill. A ticket without it has skill 0. */
  readonly double: string;
  /** Largest difference between the skills of a match's tickets while none of them has waited. */
  readonly window: number;
  /**
   * Growth of the window for each second for which the oldest ticket of the match has waited.
   */
  readonly widenPerSecond: number;
  /** Upper bound of the window. Default: unbounded. */
  readonly maxWindow?: number | undefined;
}

/**
 * Matches tickets whose skills lie within a window that widens with waiting time.
 *
 * Tickets are processed in the order of their skills, so that a match consists of neighbours. The
 * oldest ticket of a match determines the width of its window.
 */
export function skillWindow(options: SkillWindowOptions): MatchFunction {
  const { count, double, window, widenPerSecond, maxWindow = Number.POSITIVE_INFINITY } = options;
  const skill = ({ search }: WaitingTicket): number =>
    Object.hasOwn(search.doubles, double) ? (search.doubles[double] ?? 0) : 0;
  const order = new SkillOrder(skill);
  return function* ({ pools, nowMs }) {
    const tickets = order.of(allTickets(pools));
    const waitedSeconds = (createdMs: number): number => Math.max(0, nowMs - createdMs) / 1_000;
    const widthAfter = (seconds: number): number =>
      Math.min(maxWindow, window + widenPerSecond * seconds);
    // No group may be wider than the window of the oldest ticket.
    const widest = widthAfter(waitedSeconds(order.oldestMs));
    if (!areSolos(tickets.map(({ ticket }) => ticket))) {
      const used = new Set<Skilled>();
      for (let start = 0; start < tickets.length; start += 1) {
        const group = groupFrom(tickets, start, count, widest, used);
        if (group === undefined) {
          continue;
        }
        const oldestMs = Math.min(...group.map(({ ticket }) => ticket.createdMs));
        const spread = (group.at(-1)?.skill ?? 0) - (group[0]?.skill ?? 0);
        if (spread <= widthAfter(waitedSeconds(oldestMs))) {
          yield { teams: { [everyone]: group.map(({ ticket }) => ticket) }, score: -spread };
          for (const one of group) {
            used.add(one);
          }
        }
      }
      return;
    }
    for (let start = 0; start + count <= tickets.length; ) {
      const [first, last] = [tickets[start], tickets[start + count - 1]];
      const spread = (last?.skill ?? 0) - (first?.skill ?? 0);
      if (spread > widest) {
        start += 1;
        continue;
      }
      const group = tickets.slice(start, start + count).map(({ ticket }) => ticket);
      const oldestMs = Math.min(...group.map(({ createdMs }) => createdMs));
      if (spread <= widthAfter(waitedSeconds(oldestMs))) {
        yield { teams: { [everyone]: group }, score: -spread };
        start += count;
      } else {
        start += 1;
      }
    }
  };
}

/** Number of tickets that are considered for each seat of a match with parties. */
const considered = 8;

/** Gathers, from an index on, the next tickets that fit until they have `count` agents in total. */
function groupFrom(
  tickets: readonly Skilled[],
  start: number,
  count: number,
  widest: number,
  used: ReadonlySet<Skilled>,
): Skilled[] | undefined {
  const group: Skilled[] = [];
  let room = count;
  const end = Math.min(tickets.length, start + considered * count);
  for (let at = start; at < end && room > 0; at += 1) {
    const next = tickets[at];
    if (next === undefined || next.skill - (tickets[start]?.skill ?? 0) > widest) {
      return undefined;
    }
    const size = partySizeOf(next.ticket);
    if (!used.has(next) && size <= room) {
      group.push(next);
      room -= size;
    } else if (at === start) {
      return undefined;
    }
  }
  return room === 0 ? group : undefined;
}

/** A ticket with its skill. */
interface Skilled {
  readonly ticket: WaitingTicket;
  readonly skill: number;
}

/** Tickets sorted by skill. Each call updates the order of the last call instead of sorting again. */
class SkillOrder {
  readonly #skillOf: (ticket: WaitingTicket) => number;
  #tickets: readonly WaitingTicket[] = [];
  #sorted: readonly Skilled[] = [];
  /** Time when the oldest ticket was created. */
  oldestMs = Number.POSITIVE_INFINITY;

  constructor(skillOf: (ticket: WaitingTicket) => number) {
    this.#skillOf = skillOf;
  }

  /** @param tickets In matching order. */
  of(tickets: readonly WaitingTicket[]): readonly Skilled[] {
    if (tickets === this.#tickets) {
      return this.#sorted;
    }
    const { come, gone } = difference(this.#tickets, tickets);
    const kept =
      gone.size === 0 ? this.#sorted : this.#sorted.filter(({ ticket }) => !gone.has(ticket));
    const added = come.map((ticket) => ({ ticket, skill: this.#skillOf(ticket) })).sort(bySkill);
    this.#tickets = tickets;
    this.#sorted = merged(kept, added);
    this.oldestMs = tickets.reduce(
      (oldest, { createdMs }) => Math.min(oldest, createdMs),
      Number.POSITIVE_INFINITY,
    );
    return this.#sorted;
  }
}

/**
 * Returns the tickets that only `after` has (`come`) and those that only `before` has (`gone`). Both
 * lists are in matching order.
 */
function difference(
  before: readonly WaitingTicket[],
  after: readonly WaitingTicket[],
): { readonly come: WaitingTicket[]; readonly gone: Set<WaitingTicket> } {
  const come: WaitingTicket[] = [];
  const gone = new Set<WaitingTicket>();
  let at = 0;
  for (const ticket of after) {
    for (let old = before[at]; old !== undefined && old !== ticket; old = before[at]) {
      if (byTurn(old, ticket) > 0) {
        break;
      }
      gone.add(old);
      at += 1;
    }
    if (before[at] === ticket) {
      at += 1;
    } else {
      come.push(ticket);
    }
  }
  for (const old of before.slice(at)) {
    gone.add(old);
  }
  return { come, gone };
}

function bySkill(a: Skilled, b: Skilled): number {
  return a.skill - b.skill || byTurn(a.ticket, b.ticket);
}

/** Merges two sorted lists. */
function merged(one: readonly Skilled[], other: readonly Skilled[]): readonly Skilled[] {
  const result: Skilled[] = [];
  let at = 0;
  for (const next of other) {
    for (
      let before = one[at];
      before !== undefined && bySkill(before, next) < 0;
      before = one[at]
    ) {
      result.push(before);
      at += 1;
    }
    result.push(next);
  }
  for (; at < one.length; at += 1) {
    result.push(one[at] as Skilled);
  }
  return result;
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
    largestParty: count,
    poolOfTeam: new Map(),
  };
};
