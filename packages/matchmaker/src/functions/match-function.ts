// SPDX-License-Identifier: Apache-2.0
import type { MatchData, SearchFields, TicketExtension } from "../model.ts";

/** A waiting ticket. */
export interface WaitingTicket {
  readonly id: string;
  /** Time of its creation, in milliseconds on the matchmaker's clock. */
  readonly createdMs: number;
  /** Agents that it is for: they play in one team of one match. Default 1. */
  readonly partySize?: number | undefined;
  /** Round-trip times to regions, in milliseconds. Without any, every region is accepted. */
  readonly latenciesMs?: Readonly<Record<string, number>> | undefined;
  /** Tickets of a higher one are matched before others. Default 0. */
  readonly priority?: number | undefined;
  readonly search: SearchFields;
  readonly extensions: Readonly<Record<string, TicketExtension>>;
}

/** Input of a match function. */
export interface MatchContext {
  /** The name of the profile. */
  readonly profile: string;
  /** Parameters that the profile passes to a custom function. */
  readonly parameters: Readonly<Record<string, unknown>>;
  /** The waiting tickets of each pool, by priority, then the oldest first. A ticket may be in several. */
  readonly pools: ReadonlyMap<string, readonly WaitingTicket[]>;
  /** The matchmaker's time in milliseconds. */
  readonly nowMs: number;
}

/** Tickets that a match function proposes to match. */
export interface MatchProposal {
  /** The tickets of each team. */
  readonly teams: Readonly<Record<string, readonly WaitingTicket[]>>;
  /** Of two proposals with a ticket in common the higher one wins, then the one with the oldest ticket. Default 0. */
  readonly score?: number | undefined;
  /**
   * Data for the match's world and its agents, merged over the data of the profile: strings, finite
   * numbers, booleans and lists of them, 1,024 bytes as JSON together with the profile's.
   */
  readonly data?: MatchData | undefined;
}

/**
 * Proposes matches of tickets that no earlier proposal of the same call has. As many proposals are
 * read as there is room for: make it a generator, best matches first.
 */
export type MatchFunction = (context: MatchContext) => Iterable<MatchProposal>;

/** The team of matches that have only one. */
export const everyone = "everyone";

/** The tickets of all pools, each once, in their turn. */
export function allTickets(pools: MatchContext["pools"]): readonly WaitingTicket[] {
  const [first = [], ...others] = pools.values();
  if (others.length === 0) {
    return first;
  }
  const all = new Map<string, WaitingTicket>();
  for (const pool of pools.values()) {
    for (const ticket of pool) {
      all.set(ticket.id, ticket);
    }
  }
  return [...all.values()].sort(byTurn);
}

/** Orders tickets as they are matched: by priority, the highest first, and those of one priority by age. */
export function byTurn(a: WaitingTicket, b: WaitingTicket): number {
  if (a.priority !== b.priority) {
    return (b.priority ?? 0) - (a.priority ?? 0);
  }
  return a.createdMs - b.createdMs || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}
