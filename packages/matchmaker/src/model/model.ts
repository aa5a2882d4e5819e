// SPDX-License-Identifier: Apache-2.0
import type { StatusCode } from "@dm-env-rpc/tensor-codec";

/** Fields that pools can filter by. */
export interface SearchFields {
  readonly doubles: Readonly<Record<string, number>>;
  readonly strings: Readonly<Record<string, string>>;
  readonly tags: readonly string[];
}

/** An extension of a ticket. The matchmaker passes it on without reading it. */
export interface TicketExtension {
  readonly typeUrl: string;
  /** Base64. */
  readonly value: string;
}

/** State of a ticket. The last three states are final. */
export type TicketState =
  | "waiting"
  | "matched"
  | "assigned"
  | "joined"
  | "completed"
  | "cancelled"
  | "failed";

/** Reason why a ticket failed or waits again. */
export interface Reason {
  readonly code: StatusCode;
  readonly message: string;
}

/** Data of a match for its world and its agents, by name. */
export type MatchData = Readonly<Record<string, MatchDatum>>;

/** A value of match data. */
export type MatchDatum = string | number | boolean | readonly MatchDatum[];

/** An agent's team, role and data in a match. */
export interface Part {
  readonly team: string;
  /** Empty if the team has no role. */
  readonly role: string;
  readonly data: MatchData;
}

/** Data with which a ticket's agent joins: address, world and token. */
export interface Assignment extends Part {
  readonly address: string;
  readonly worldName: string;
  readonly joinToken: string;
  /** A token for each agent of a party; undefined for a ticket without a party. */
  readonly joinTokens?: readonly string[] | undefined;
  /** Time at which the join tokens expire, on the store's clock. */
  readonly expiresMs: number;
}

/**
 * Request for a match, from an agent or from a party of agents. All times are in milliseconds, on the
 * store's clock.
 */
export interface Ticket {
  readonly id: string;
  /** Age of the ticket, for its place in the queue and for expansions. A ticket that waits again keeps it. */
  readonly createdMs: number;
  /**
   * Time from which `maxWaitMs` is measured: when the ticket, which had a seat, began to wait again. Undefined until
   * then, and in records of earlier releases: `maxWaitMs` is then measured from `createdMs`.
   */
  readonly waitingSinceMs?: number | undefined;
  /** The only profile that may match the ticket; empty if any profile may. */
  readonly profile: string;
  /** Number of agents; undefined for a single agent. */
  readonly partySize?: number | undefined;
  /** Round-trip times to regions; undefined if the ticket has none. */
  readonly latenciesMs?: Readonly<Record<string, number>> | undefined;
  /** Undefined for 0. */
  readonly priority?: number | undefined;
  /** Identity of the ticket's creator; undefined unless `authorize` identifies callers. */
  readonly owner?: string | undefined;
  /** Caller whose limits apply to the ticket: an identity, or a network address. */
  readonly caller?: string | undefined;
  /** SHA-256 of the secret that the ticket was created with, as hexadecimal digits. */
  readonly secretHash?: string | undefined;
  readonly search: SearchFields;
  readonly extensions: Readonly<Record<string, TicketExtension>>;
  readonly state: TicketState;
  readonly matchId?: string | undefined;
  readonly assignment?: Assignment | undefined;
  readonly reason?: Reason | undefined;
  /** Number of times that the create of the ticket's world has failed. Failures of servers do not count. */
  readonly attempts: number;
  readonly endedMs?: number | undefined;
  /** Time at which the ticket fails. A watch extends this time, and so does a read by the ticket's creator. */
  readonly aliveUntilMs?: number | undefined;
  /**
   * True if the last watch of the ticket has ended. The ticket is not matched until it is watched or read
   * again.
   */
  readonly away?: boolean | undefined;
  /** The span that created the ticket, as the header `traceparent`; undefined if the ticket is not traced. */
  readonly traceparent?: string | undefined;
}

/** Stored form of a profile: the bytes of a MatchProfile. */
export interface ProfileRecord {
  readonly name: string;
  /** Base64. */
  readonly message: string;
}

/** Labels of a server, by key. */
export type Labels = Readonly<Record<string, string>>;

/** An environment server that registered. */
export interface ServerRecord {
  readonly id: string;
  readonly address: string;
  /** Grows with each registration. */
  readonly epoch: number;
  readonly maxWorlds: number;
  readonly maxAgents: number;
  readonly worldTypes: readonly string[];
  /** Undefined if the server has no region. */
  readonly region?: string | undefined;
  /** Undefined if the server has no labels. */
  readonly labels?: Labels | undefined;
  /**
   * - True if the allocator has allocated the server.
   * - False if the allocator does not manage the server.
   * - Undefined before the allocator is called.
   */
  readonly allocated?: boolean | undefined;
  /** Identity of the caller that registered the server; undefined unless `authorize` identifies callers. */
  readonly owner?: string | undefined;
  /**
   * SHA-256 of the secret that the server registered with, as hexadecimal digits. Undefined if the server
   * registered without a secret: its owner may then use the server's id without one.
   */
  readonly secretHash?: string | undefined;
  /** True if the server requires join tokens, and reports the tickets in its worlds. */
  readonly joinTokens: boolean;
  /** `gone`: its worlds are being ended, and their tickets wait again or fail. Then the server is removed. */
  readonly state: "serving" | "draining" | "lost" | "gone";
}

/** A world as its server reports it. */
export interface ReportedWorld {
  readonly name: string;
  readonly type: string;
  readonly agents: number;
  readonly sequences: number;
  readonly tickets: readonly string[];
  /** Tickets whose agents have left since the previous report. */
  readonly left: readonly string[];
  /** Number of agents that have ever joined. */
  readonly joins: number;
  readonly premade: boolean;
  /** Number of agents without a ticket; undefined if the server does not report guests. */
  readonly guests?: number | undefined;
}

/** A server's last report. Each report renews the server's lease. */
export interface Report {
  readonly serverId: string;
  readonly epoch: number;
  /** Grows by one with each report. */
  readonly sequence: number;
  /** Number that the server gave the report; 0 if the server does not number its reports. */
  readonly number?: number | undefined;
  readonly receivedMs: number;
  readonly worlds: readonly ReportedWorld[];
  /** From 0 for idle to 1 for fully used; undefined if the server reports no load. */
  readonly load?: number | undefined;
}

/** A world that the matchmaker created or adopted. */
export interface World {
  readonly id: string;
  readonly serverId: string;
  readonly address: string;
  /** The profile whose settings the world has; empty for an adopted world. */
  readonly profile: string;
  readonly type: string;
  readonly seats: number;
  /** Name of the world on its server; undefined until the world exists. */
  readonly name?: string | undefined;
  readonly state: "creating" | "open" | "draining" | "destroying";
  /** Undefined for a spare world. */
  readonly matchId?: string | undefined;
  readonly createdMs: number;
  /**
   * Time at which the world was opened or adopted; 0 until then. Policies ignore reports that were received
   * before this time: such a report may be about an earlier world of the same name.
   */
  readonly openedMs: number;
  /** True if an agent has ever been in the world. */
  readonly used: boolean;
  /** Time at which the world became empty; undefined while an agent is inside. */
  readonly emptySinceMs?: number | undefined;
  readonly resetMs: number;
  readonly resetSequences: number;
  /** Time at which a draining world is destroyed, even if agents are still inside. */
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
  /** Sizes of the match's parties, by ticket. */
  readonly parties?: Readonly<Record<string, number>> | undefined;
  /** Data from the match function, in addition to the profile's data. */
  readonly data?: MatchData | undefined;
  /** The team of each open seat; a team with several open seats is repeated. */
  readonly vacancies: readonly string[];
  /**
   * Cancelled tickets whose agents may still be inside or may still join, by id. A held ticket stays in its
   * team until its seats are free. The value is the time at which the ticket's join tokens expire. If the
   * ticket has no party and its agent has joined, the time is 0: the token has been used, and the seat becomes
   * free when the agent leaves.
   */
  readonly held?: Readonly<Record<string, number>> | undefined;
  readonly createdMs: number;
  /** The span that last assigned tickets to the match; undefined if the match is not traced. */
  readonly traceparent?: string | undefined;
}

/** A secret that matchmakers with the same store share. */
export interface Secret {
  readonly id: string;
  /** JSON. */
  readonly value: string;
}

/** Stored records by kind. */
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

/** A final state of a ticket. */
export type FinalState = "completed" | "cancelled" | "failed";

/** Returns true if a ticket is in a final state. */
export function hasEnded(ticket: Ticket): ticket is Ticket & { readonly state: FinalState } {
  return ticket.state === "completed" || ticket.state === "cancelled" || ticket.state === "failed";
}
