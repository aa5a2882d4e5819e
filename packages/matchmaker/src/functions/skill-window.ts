// SPDX-License-Identifier: Apache-2.0
import { invalid } from "../errors/errors.ts";
import { countBefore, visitEdited } from "../model/sorted-list.ts";
import {
  allTickets,
  byTurn,
  everyone,
  type MatchFunction,
  type WaitingTicket,
} from "./match-function.ts";
import { partySizeOf } from "./parties.ts";
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
    const ranking = order.of(allTickets(pools));
    const { tickets, skills } = ranking;
    const waitedSeconds = (createdMs: number): number => Math.max(0, nowMs - createdMs) / 1_000;
    const widthAfter = (seconds: number): number =>
      Math.min(maxWindow, window + widenPerSecond * seconds);
    // No group may be wider than the window of the oldest ticket.
    const widest = widthAfter(waitedSeconds(order.oldestMs));
    if (order.hasParties) {
      const used = new Set<number>();
      for (let start = 0; start < tickets.length; start += 1) {
        const places = groupFrom(ranking, start, count, widest, used);
        if (places === undefined) {
          continue;
        }
        const group = places.flatMap((at) => tickets[at] ?? []);
        const spread = skillAt(skills, places.at(-1)) - skillAt(skills, places[0]);
        if (spread <= widthAfter(waitedSeconds(oldestOf(group)))) {
          yield { teams: { [everyone]: group }, score: -spread };
          for (const at of places) {
            used.add(at);
          }
        }
      }
      return;
    }
    for (let start = 0; start + count <= tickets.length; ) {
      const spread = skillAt(skills, start + count - 1) - skillAt(skills, start);
      if (spread > widest) {
        start += 1;
        continue;
      }
      const group = tickets.slice(start, start + count);
      if (spread <= widthAfter(waitedSeconds(oldestOf(group)))) {
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

/**
 * Collects the ticket at index `start` and then, in the order of skills, each ticket that is unused and still
 * fits, until their agents add up to `count`.
 *
 * @returns The indexes of the tickets; undefined if the considered tickets do not add up to `count`, or if
 *   their skills differ by more than `widest`.
 */
function groupFrom(
  { tickets, skills }: Ranking,
  start: number,
  count: number,
  widest: number,
  used: ReadonlySet<number>,
): number[] | undefined {
  const group: number[] = [];
  let room = count;
  const end = Math.min(tickets.length, start + considered * count);
  for (let at = start; at < end && room > 0; at += 1) {
    const next = tickets[at];
    if (next === undefined || skillAt(skills, at) - skillAt(skills, start) > widest) {
      return undefined;
    }
    const size = partySizeOf(next);
    if (!used.has(at) && size <= room) {
      group.push(at);
      room -= size;
    } else if (at === start) {
      return undefined;
    }
  }
  return room === 0 ? group : undefined;
}

/** Tickets in the order of their skills. */
interface Ranking {
  readonly tickets: readonly WaitingTicket[];
  /** The skill of each ticket, in a separate array because a search reads far more skills than tickets. */
  readonly skills: Float64Array;
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
  #ranking: Ranking = { tickets: [], skills: new Float64Array() };
  #parties = 0;
  #oldestMs = Number.POSITIVE_INFINITY;

  constructor(skillOf: (ticket: WaitingTicket) => number) {
    this.#skillOf = skillOf;
  }

  /** Time when the oldest ticket was created. */
  get oldestMs(): number {
    return this.#oldestMs;
  }

  /** True if a ticket is for several agents. */
  get hasParties(): boolean {
    return this.#parties > 0;
  }

  /** @param tickets In matching order. */
  of(tickets: readonly WaitingTicket[]): Ranking {
    if (tickets === this.#tickets) {
      return this.#ranking;
    }
    const { come, gone } = difference(this.#tickets, tickets);
    this.#tickets = tickets;
    this.#parties += partiesAmong(come) - partiesAmong(gone);
    const knownOldestMs = this.#oldestMs;
    // If the oldest ticket is gone, finds the oldest ticket among the rest.
    this.#oldestMs = gone.some(({ createdMs }) => createdMs === knownOldestMs)
      ? oldestOf(tickets)
      : oldestOf(come, knownOldestMs);
    this.#ranking = edited(this.#ranking, this.#skilled(come).sort(bySkill), this.#skilled(gone));
    return this.#ranking;
  }

  #skilled(tickets: readonly WaitingTicket[]): Skilled[] {
    return tickets.map((ticket) => ({ ticket, skill: this.#skillOf(ticket) }));
  }
}

function partiesAmong(tickets: readonly WaitingTicket[]): number {
  return tickets.reduce((sum, ticket) => sum + (partySizeOf(ticket) > 1 ? 1 : 0), 0);
}

/** Returns the time when the oldest ticket was created. */
function oldestOf(
  tickets: readonly WaitingTicket[],
  knownMs: number = Number.POSITIVE_INFINITY,
): number {
  return tickets.reduce((oldest, { createdMs }) => Math.min(oldest, createdMs), knownMs);
}

/**
 * Returns the tickets that only `after` has (`come`) and those that only `before` has (`gone`). Both
 * lists are in matching order.
 */
function difference(
  before: readonly WaitingTicket[],
  after: readonly WaitingTicket[],
): { readonly come: WaitingTicket[]; readonly gone: WaitingTicket[] } {
  const come: WaitingTicket[] = [];
  const gone: WaitingTicket[] = [];
  let at = 0;
  for (const ticket of after) {
    for (let old = before[at]; old !== undefined && old !== ticket; old = before[at]) {
      if (byTurn(old, ticket) > 0) {
        break;
      }
      gone.push(old);
      at += 1;
    }
    if (before[at] === ticket) {
      at += 1;
    } else {
      come.push(ticket);
    }
  }
  for (const old of before.slice(at)) {
    gone.push(old);
  }
  return { come, gone };
}

function bySkill(a: Skilled, b: Skilled): number {
  return a.skill - b.skill || byTurn(a.ticket, b.ticket);
}

function skillAt(skills: Float64Array, at: number | undefined): number {
  return skills[at ?? 0] ?? 0;
}

/** Returns a ranking without the tickets in `gone`, and with the tickets in `come`, sorted by skill. */
function edited(before: Ranking, come: readonly Skilled[], gone: readonly Skilled[]): Ranking {
  const tickets: WaitingTicket[] = [];
  const skills = new Float64Array(before.tickets.length + come.length - gone.length);
  const placeOf = ({ ticket, skill }: Skilled): number =>
    countBefore(before.tickets, (other, at) => {
      const ahead = skillAt(before.skills, at) - skill;
      return ahead < 0 || (ahead === 0 && byTurn(other, ticket) < 0);
    });
  const edits = { removed: gone, added: come, placeOf };
  visitEdited(before.tickets, edits, {
    keep(kept, start) {
      skills.set(before.skills.subarray(start, start + kept.length), tickets.length);
      for (const ticket of kept) {
        tickets.push(ticket);
      }
    },
    add({ ticket, skill }) {
      skills[tickets.length] = skill;
      tickets.push(ticket);
    },
  });
  return { tickets, skills };
}

/** Reads `skill_window` of a profile. */
export const readSkillWindow: FunctionReader<"skillWindow"> = (parameters) => {
  const { count, doubleArg, window, widenPerSecond, maxWindow } = parameters;
  checkCount("skill_window.count", count);
  if (doubleArg === "") {
    throw invalid("skill_window.double_arg", "a name", "none");
  }
  const numbers = [
    ["window", window],
    ["widen_per_second", widenPerSecond],
    ["max_window", maxWindow],
  ] as const;
  for (const [name, value] of numbers) {
    if (value !== undefined && !(value >= 0)) {
      throw invalid(`skill_window.${name}`, "a number of at least 0", String(value));
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
