// SPDX-License-Identifier: Apache-2.0
import type { MatchData, SearchFields, TicketExtension } from "../model/model.ts";

/** A waiting ticket. */
export interface WaitingTicket {
  readonly id: string;
  /** Time of its creation, in milliseconds on the matchmaker's clock. */
  readonly createdMs: number;
  /** Number of its agents, which play in one team of one match. Default 1. */
  readonly partySize?: number | undefined;
  /** Round-trip times to regions, in milliseconds. Default: the ticket accepts every region. */
  readonly latenciesMs?: Readonly<Record<string, number>> | undefined;
  /** Tickets with a higher priority are matched first. Default 0. */
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
  /**
   * The waiting tickets of each pool in matching order: by priority, then oldest first. A ticket may
   * be in several pools.
   */
  readonly pools: ReadonlyMap<string, readonly WaitingTicket[]>;
  /** The matchmaker's time in milliseconds. */
  readonly nowMs: number;
}

/** Tickets that a match function proposes to match. */
export interface MatchProposal {
  /** The tickets of each team. */
  readonly teams: Readonly<Record<string, readonly WaitingTicket[]>>;
  /**
   * If proposals of two profiles share a ticket, the proposal with the higher score is used. If the scores
   * are equal, the proposal that contains the ticket with the highest priority is used, then the proposal
   * that contains the oldest ticket. Default 0.
   */
  readonly score?: number | undefined;
  /**
   * Data for the match's world and its agents, merged over the data of the profile: strings, finite
   * numbers, booleans and lists of them. The merged data is limited to 1,024 bytes of JSON.
   */
  readonly data?: MatchData | undefined;
}

/**
 * Proposes matches. Each ticket may be in at most one proposal of a call. The matchmaker reads only as many
 * proposals as it has room for: make the function a generator that yields the best matches first.
 */
export type MatchFunction = (context: MatchContext) => Iterable<MatchProposal>;

/** Name of the team in matches that have only one team. */
export const everyone = "everyone";

/** Returns the tickets of all pools, each once, in matching order. */
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

/** Compares two tickets for the matching order: the highest priority first, then the oldest. */
export function byTurn(a: WaitingTicket, b: WaitingTicket): number {
  if (a.priority !== b.priority) {
    const ahead = (b.priority ?? 0) - (a.priority ?? 0);
    if (ahead !== 0) {
      return ahead;
    }
  }
  return a.createdMs - b.createdMs || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0);
}
