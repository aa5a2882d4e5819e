// SPDX-License-Identifier: Apache-2.0
import type { DescEnum } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import {
  type MatchProfile,
  type Server,
  ServerStateSchema,
  type Ticket,
  TicketState,
  TicketStateSchema,
  type WatchResponse,
  WatchResponse_KindSchema,
} from "@dm-env-rpc/protocol/matchmaker";

/** A ticket as the page lists it, without its join tokens. */
export interface TicketRow {
  readonly id: string;
  readonly state: TicketState;
  readonly createdMs: number | undefined;
  readonly partySize: number;
  readonly profile: string;
  /** World and address of the ticket's assignment; empty if it has none. */
  readonly place: string;
  readonly error: string;
}

/** A change of a record. */
export interface Change {
  /** Number of the change since the watch began, from 1 on. */
  readonly number: number;
  readonly timeMs: number;
  readonly kind: string;
  readonly id: string;
  readonly text: string;
}

/** Maximum number of changes that are kept. */
export const maxChanges = 200;

/** Returns the name of an enum's value in lower case. */
export function nameOfState(names: DescEnum, value: number): string {
  return names.value[value]?.localName.toLowerCase() ?? `unknown (${value})`;
}

/** The records of a matchmaker, as a watch yields them. */
export class Fleet {
  readonly #profiles = new Map<string, MatchProfile>();
  readonly #servers = new Map<string, Server>();
  readonly #tickets = new Map<string, TicketRow>();
  readonly #counts = new Map<TicketState, number>();
  #changes: readonly Change[] = [];
  #changeCount = 0;

  get profiles(): readonly MatchProfile[] {
    return [...this.#profiles.values()];
  }

  get servers(): readonly Server[] {
    return [...this.#servers.values()];
  }

  /** The latest changes, newest first. */
  get changes(): readonly Change[] {
    return this.#changes;
  }

  /** Counts the tickets in a state; if `state` is undefined, all tickets, even those that have ended. */
  count(state: TicketState | undefined): number {
    return state === undefined ? this.#tickets.size : (this.#counts.get(state) ?? 0);
  }

  /** Returns at most `limit` tickets in a state, or in any state, newest first. */
  tickets(state: TicketState | undefined, limit: number): readonly TicketRow[] {
    const found: TicketRow[] = [];
    for (const row of [...this.#tickets.values()].reverse()) {
      if (found.length === limit) {
        break;
      }
      if (state === undefined || row.state === state) {
        found.push(row);
      }
    }
    return found;
  }

  /** Applies a change of the watch. */
  apply(change: WatchResponse["change"], timeMs: number): void {
    switch (change.case) {
      case "profile":
        this.#profiles.set(change.value.name, change.value);
        break;
      case "server":
        this.#servers.set(change.value.id, change.value);
        break;
      case "ticket":
        this.#putTicket(rowOf(change.value));
        break;
      case "removed":
        this.#remove(nameOfState(WatchResponse_KindSchema, change.value.kind), change.value.id);
        break;
      default:
        break;
    }
    this.#changeCount += 1;
    const entry = { number: this.#changeCount, timeMs, ...described(change) };
    this.#changes = [entry, ...this.#changes.slice(0, maxChanges - 1)];
  }

  #putTicket(row: TicketRow): void {
    this.#forgetTicket(row.id, false);
    this.#tickets.set(row.id, row);
    this.#counts.set(row.state, (this.#counts.get(row.state) ?? 0) + 1);
  }

  #forgetTicket(id: string, isRemoved: boolean): void {
    const before = this.#tickets.get(id);
    if (before !== undefined) {
      this.#counts.set(before.state, (this.#counts.get(before.state) ?? 0) - 1);
    }
    if (isRemoved) {
      this.#tickets.delete(id);
    }
  }

  #remove(kind: string, id: string): void {
    switch (kind) {
      case "profile":
        this.#profiles.delete(id);
        break;
      case "server":
        this.#servers.delete(id);
        break;
      case "ticket":
        this.#forgetTicket(id, true);
        break;
      default:
        break;
    }
  }
}

function rowOf(ticket: Ticket): TicketRow {
  const { id, state, createTime, partySize, profile, assignment, error } = ticket;
  return {
    id,
    state,
    createdMs: createTime && timestampMs(createTime),
    partySize,
    profile,
    place: assignment === undefined ? "" : `${assignment.worldName} at ${assignment.address}`,
    error: error?.message ?? "",
  };
}

function described(change: WatchResponse["change"]): Pick<Change, "kind" | "id" | "text"> {
  switch (change.case) {
    case "profile":
      return { kind: "profile", id: change.value.name, text: `world ${change.value.worldType}` };
    case "server": {
      const { id, state, placedWorlds, placedSeats } = change.value;
      const name = nameOfState(ServerStateSchema, state);
      return { kind: "server", id, text: `${name}, ${placedWorlds} worlds, ${placedSeats} seats` };
    }
    case "match": {
      const { id, profile, teams, worldName, serverId } = change.value;
      const count = teams.reduce((sum, { ticketIds }) => sum + ticketIds.length, 0);
      const world = worldName === "" ? "a world that is being created" : worldName;
      return { kind: "match", id, text: `${profile}, ${count} tickets in ${world} on ${serverId}` };
    }
    case "ticket": {
      const { id, state, error } = change.value;
      const name = nameOfState(TicketStateSchema, state);
      return { kind: "ticket", id, text: error === undefined ? name : `${name}: ${error.message}` };
    }
    case "removed": {
      const kind = nameOfState(WatchResponse_KindSchema, change.value.kind);
      return { kind, id: change.value.id, text: "removed" };
    }
    case undefined:
      return {
        kind: "unknown",
        id: "",
        text: "a change that this version of the page does not know",
      };
  }
}

/** Returns the total number of agents in the worlds of servers. */
export function agentsOf(servers: readonly Server[]): number {
  return servers.reduce(
    (sum, { worlds }) => sum + worlds.reduce((inner, { agents }) => inner + agents, 0),
    0,
  );
}

/** The states in which tickets are listed, in the order of a ticket's life. */
export const ticketStates: readonly TicketState[] = [
  TicketState.WAITING,
  TicketState.MATCHED,
  TicketState.ASSIGNED,
  TicketState.JOINED,
  TicketState.COMPLETED,
  TicketState.CANCELLED,
  TicketState.FAILED,
];
