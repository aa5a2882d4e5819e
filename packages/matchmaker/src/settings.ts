// SPDX-License-Identifier: Apache-2.0
import { type Limit, type LimitsOf, readLimits } from "@dm-env-rpc/transport";

class SettingTable {
  /** How often it looks for work where nothing calls for it. Default 500. */
  readonly tickMs: Limit = { default: 500, unit: "ms" };
  /** Least time between two looks; what changes meanwhile is taken together. Default 20. */
  readonly minTickMs: Limit = { default: 20, unit: "ms" };
  /** How long a matchmaker that went away is waited for before another takes over. Default 5,000. */
  readonly leaderLeaseMs: Limit = { default: 5_000, unit: "ms" };
  /** How long a server may be silent until it is lost: it gets no more worlds. Default 15,000. */
  readonly serverLeaseMs: Limit = { default: 15_000, unit: "ms" };
  /** How long a lost server may take to come back until its worlds are given up. Default 30,000. */
  readonly lostServerMs: Limit = { default: 30_000, unit: "ms" };
  /** How long a world that nobody owns is left alone. Default 10,000. */
  readonly orphanMs: Limit = { default: 10_000, unit: "ms" };
  /** How long a create, destroy or reset of a world may take. Default 30,000. */
  readonly worldCallMs: Limit = { default: 30_000, unit: "ms" };
  /** How long a server is not used after a create on it failed; doubles up to 30 times that. Default 1,000. */
  readonly cooldownMs: Limit = { default: 1_000, unit: "ms" };
  /** How long the address of a server that registers may take to answer. Default 5,000. */
  readonly callbackMs: Limit = { default: 5_000, unit: "ms" };
  /** How long a match function of the operator's own may take for one turn. Default 1,000. */
  readonly matchFunctionMs: Limit = { default: 1_000, unit: "ms" };
  /** How long a ticket may wait, from its creation. Default 600,000. */
  readonly maxWaitMs: Limit = { default: 600_000, unit: "ms" };
  /** How long a ticket waits that nobody follows: a watch follows it, and so does each GetTicket of its creator. Default 60,000. */
  readonly ticketLeaseMs: Limit = { default: 60_000, unit: "ms" };
  /** How long a ticket whose watch has ended waits for another; it is not matched meanwhile. Default 10,000. */
  readonly awayMs: Limit = { default: 10_000, unit: "ms" };
  /** How long a ticket that has ended is still known. Default 300,000. */
  readonly retainMs: Limit = { default: 300_000, unit: "ms" };
  /** Creates that a world may fail by its own fault; then its tickets fail. Default 3. */
  readonly maxAttempts: Limit = { default: 3, unit: "count" };
  /** Matches made at one look; more wait for the next. Default 500. */
  readonly maxMatchesPerTick: Limit = { default: 500, unit: "count" };
  /** Creates at a time on one server. Default 32. */
  readonly maxCreatesPerServer: Limit = { default: 32, unit: "count" };
  /** Tickets that are known, the ended ones included. Default 500,000. */
  readonly maxTickets: Limit = { default: 500_000, unit: "count" };
  /** Bytes of memory that all of these take, by an estimate. Default 134,217,728. */
  readonly maxTicketsBytes: Limit = { default: 134_217_728, unit: "bytes" };
  /** Bytes of a ticket. Default 16,384. */
  readonly maxTicketBytes: Limit = { default: 16_384, unit: "bytes" };
  /** Agents of one ticket. Default 32. */
  readonly maxPartySize: Limit = { default: 32, unit: "count" };
  /** Tickets of one caller that have not ended. Default 2,000. */
  readonly maxTicketsPerCaller: Limit = { default: 2_000, unit: "count" };
  /** Bytes of memory that the tickets of one caller take, the ended ones included. Default 16,777,216. */
  readonly maxTicketsBytesPerCaller: Limit = { default: 16_777_216, unit: "bytes" };
  /** Watches of tickets at a time. Default 20,000. */
  readonly maxWatches: Limit = { default: 20_000, unit: "count" };
  /** The same of one caller. Default 2,000. */
  readonly maxWatchesPerCaller: Limit = { default: 2_000, unit: "count" };
  /** Other calls of agents at a time. Default 8,000. */
  readonly maxCalls: Limit = { default: 8_000, unit: "count" };
  /** Calls of servers, operators and health checks at a time, for which agents leave room. Default 2,000. */
  readonly reservedCalls: Limit = { default: 2_000, unit: "count" };
  /** Calls of one caller at a time, watches aside. Default 1,000. */
  readonly maxCallsPerCaller: Limit = { default: 1_000, unit: "count" };
  /** Calls of one caller per second, for longer than 4 s. Default 1,000. */
  readonly maxCallsPerSecond: Limit = { default: 1_000, unit: "count" };
  /** HTTP/2 connections at a time from one IPv4 address, or one IPv6 network of 64 bits. Default 2,000. */
  readonly maxConnectionsPerAddress: Limit = { default: 2_000, unit: "count" };
  /** Servers. Default 1,000. */
  readonly maxServers: Limit = { default: 1_000, unit: "count" };
  /** Worlds of one server. Default 10,000. */
  readonly maxWorldsPerServer: Limit = { default: 10_000, unit: "count" };
  /** Profiles. Default 1,000. */
  readonly maxProfiles: Limit = { default: 1_000, unit: "count" };
  /** Changes that wait for a slow watcher. Default 10,000. */
  readonly maxWatchQueue: Limit = { default: 10_000, unit: "count" };
}

/** The times and limits of a matchmaker. Each limit is named in the error of whoever meets it. */
export interface MatchmakerSettings extends LimitsOf<SettingTable> {}

const table = new SettingTable();

/** The settings of a matchmaker that was told nothing else. */
export const defaultSettings: MatchmakerSettings = readLimits(table);

/**
 * Settings, those that were not given by default.
 *
 * @throws RangeError naming one that is none.
 */
export function settingsFrom(given?: Partial<MatchmakerSettings>): MatchmakerSettings {
  return readLimits(table, given, "setting");
}
