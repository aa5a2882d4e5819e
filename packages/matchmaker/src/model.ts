// SPDX-License-Identifier: Apache-2.0
import type { StatusCode } from "@dm-env-rpc/tensor-codec";

/** What pools can filter by. */
export interface SearchFields {
  readonly doubles: Readonly<Record<string, number>>;
  readonly strings: Readonly<Record<string, string>>;
  readonly tags: readonly string[];
}

/** An extension of a ticket, carried along unread. */
export interface TicketExtension {
  readonly typeUrl: string;
  /** Base64. */
  readonly value: string;
}

/** Where a ticket stands. The last three are for good. */
export type TicketState =
  | "waiting"
  | "matched"
  | "assigned"
  | "joined"
  | "completed"
  | "cancelled"
  | "failed";

/** Why a ticket failed, or went back to its pools. */
export interface Reason {
  readonly code: StatusCode;
  readonly message: string;
}

/** What a match tells its world and its agents, by name. */
export type MatchData = Readonly<Record<string, MatchDatum>>;

/** A value of match data. */
export type MatchDatum = string | number | boolean | readonly MatchDatum[];

/** What an agent plays as. */
export interface Part {
  readonly team: string;
  /** Empty where the team has none. */
  readonly role: string;
  readonly data: MatchData;
}

/** Where a ticket's agent joins. */
export interface Assignment extends Part {
  readonly address: string;
  readonly worldName: string;
  readonly joinToken: string;
  /** A token for each agent of a party; undefined where the ticket is for one. */
  readonly joinTokens?: readonly string[] | undefined;
  /** When the seat is given up unless it has been taken; the store's time. */
  readonly expiresMs: number;
}

/** The wish of an agent, or of a party of agents, to play. All times are the store's, in milliseconds. */
export interface Ticket {
  readonly id: string;
  readonly createdMs: number;
  /** The only profile that may match it; empty for all. */
  readonly profile: string;
  /** Agents that it is for; undefined for one. */
  readonly partySize?: number | undefined;
  /** Round-trip times to regions; undefined where it has none. */
  readonly latenciesMs?: Readonly<Record<string, number>> | undefined;
  /** Undefined for 0. */
  readonly priority?: number | undefined;
  /** Who created it, where `authorize` tells callers apart. */
  readonly owner?: string | undefined;
  /** Who it counts for: an identity, or a network address. */
  readonly caller?: string | undefined;
  /** SHA-256 of the secret that it was created with, as hexadecimal digits. */
  readonly secretHash?: string | undefined;
  readonly search: SearchFields;
  readonly extensions: Readonly<Record<string, TicketExtension>>;
  readonly state: TicketState;
  readonly matchId?: string | undefined;
  readonly assignment?: Assignment | undefined;
  readonly reason?: Reason | undefined;
  /** Failures of a world's create that it has been through. */
  readonly attempts: number;
  readonly endedMs?: number | undefined;
  /** Until when it waits unless somebody follows it, by a watch or by getting it. */
  readonly aliveUntilMs?: number | undefined;
  /** Its last watch has ended: it is not matched until it is followed again. */
  readonly away?: boolean | undefined;
}

/** What a profile is kept as: the bytes of a MatchProfile. */
export interface ProfileRecord {
  readonly name: string;
  /** Base64. */
  readonly message: string;
}

/** An environment server that registered. */
export interface ServerRecord {
  readonly id: string;
  readonly address: string;
  /** Grows with each registration. */
  readonly epoch: number;
  readonly maxWorlds: number;
  readonly maxAgents: number;
  readonly worldTypes: readonly string[];
  /** Undefined where it named none. */
  readonly region?: string | undefined;
  /** SHA-256 of the secret that it registered with, as hexadecimal digits; none where its id is anybody's. */
  readonly secretHash?: string | undefined;
  /** It admits nobody without a join token, and reports whose are in its worlds. */
  readonly joinTokens: boolean;
  /** `gone`: its worlds are over, and what is left of it is being put in order. */
  readonly state: "serving" | "draining" | "lost" | "gone";
}

/** A world as its server reports it. */
export interface ReportedWorld {
  readonly name: string;
  readonly type: string;
  readonly agents: number;
  readonly sequences: number;
  readonly tickets: readonly string[];
  /** Tickets whose agents have left since the report before. */
  readonly left: readonly string[];
  /** Agents that have ever joined. */
  readonly joins: number;
  readonly premade: boolean;
}

/** A server's last report, which also holds its lease. */
export interface Report {
  readonly serverId: string;
  readonly epoch: number;
  /** Grows by one with each report. */
  readonly sequence: number;
  /** The server's own count of its reports, in the order in which it made them; 0 where it does not count. */
  readonly number?: number | undefined;
  readonly receivedMs: number;
  readonly worlds: readonly ReportedWorld[];
}

/** A world that the matchmaker has made, or has adopted. */
export interface World {
  readonly id: string;
  readonly serverId: string;
  readonly address: string;
  /** The profile whose settings it has; empty for one that was adopted. */
  readonly profile: string;
  readonly type: string;
  readonly seats: number;
  /** Its name on the server, once it is there. */
  readonly name?: string | undefined;
  readonly state: "creating" | "open" | "draining" | "destroying";
  /** None: it is ready for a match. */
  readonly matchId?: string | undefined;
  readonly createdMs: number;
  /** When it was opened, or adopted; 0 before. Reports that were received earlier know nothing of it. */
  readonly openedMs: number;
  /** An agent has been in it. */
  readonly used: boolean;
  /** Since when no agent is in it. */
  readonly emptySinceMs?: number | undefined;
  readonly resetMs: number;
  readonly resetSequences: number;
  /** When a draining world is destroyed whoever is in it. */
  readonly drainUntilMs?: number | undefined;
}

/** The tickets of one team. */
export interface Roster {
  readonly name: string;
  readonly tickets: readonly string[];
}

/** Tickets that play together in one world. */
export interface Match {
  readonly id: string;
  readonly profile: string;
  readonly worldId: string;
  readonly serverId: string;
  /** `placed`: its world is being created. */
  readonly state: "placed" | "live";
  readonly teams: readonly Roster[];
  /** Agents of its tickets that are for several, by ticket. */
  readonly parties?: Readonly<Record<string, number>> | undefined;
  /** What the match function added to the data of the profile. */
  readonly data?: MatchData | undefined;
  /** Teams with an open seat, one entry a seat. */
  readonly vacancies: readonly string[];
  /**
   * Seats of tickets that were cancelled while they had one, by ticket, with the time at which their join tokens
   * expire: the agent may be inside still, or come yet. The ticket stays in its team until the seat is vacant.
   */
  readonly held?: Readonly<Record<string, number>> | undefined;
  readonly createdMs: number;
}

/** What matchmakers that share a store must agree on. */
export interface Secret {
  readonly id: string;
  /** JSON. */
  readonly value: string;
}

/** What is kept, by kind. */
export interface Records {
  readonly profile: ProfileRecord;
  readonly server: ServerRecord;
  readonly report: Report;
  readonly world: World;
  readonly match: Match;
  readonly ticket: Ticket;
  readonly secret: Secret;
}

/** A kind of record. */
export type Kind = keyof Records;

/** Whether a ticket's story is over. */
export function hasEnded(ticket: Ticket): boolean {
  return ticket.state === "completed" || ticket.state === "cancelled" || ticket.state === "failed";
}
