// SPDX-License-Identifier: Apache-2.0
import { type Limit, type LimitsOf, readLimits } from "@dm-env-rpc/transport";

class SettingTable {
  /** Interval of the ticks without changes. Default 500. */
  readonly tickMs: Limit = { default: 500, unit: "ms" };
  /** Least time between two ticks; changes in between are processed together. Default 20. */
  readonly minTickMs: Limit = { default: 20, unit: "ms" };
  /** Time after which another matchmaker takes over from a leader that is gone. Default 5,000. */
  readonly leaderLeaseMs: Limit = { default: 5_000, unit: "ms" };
  /** Silence after which a server is lost: it gets no more worlds. Default 15,000. */
  readonly serverLeaseMs: Limit = { default: 15_000, unit: "ms" };
  /** Time for a lost server to return before its worlds are given up. Default 30,000. */
  readonly lostServerMs: Limit = { default: 30_000, unit: "ms" };
  /** Time before a world without a record is destroyed. Default 10,000. */
  readonly orphanMs: Limit = { default: 10_000, unit: "ms" };
  /** Time limit of a create, destroy or reset of a world. Default 30,000. */
  readonly worldCallMs: Limit = { default: 30_000, unit: "ms" };
  /**
   * Time for which a server is not used after a failed create; doubles up to 30 times that.
   * Default 1,000.
   */
  readonly cooldownMs: Limit = { default: 1_000, unit: "ms" };
  /** Time limit for the address of a server that registers to answer. Default 5,000. */
  readonly callbackMs: Limit = { default: 5_000, unit: "ms" };
  /** Time limit of a custom match function for one run. Default 1,000. */
  readonly matchFunctionMs: Limit = { default: 1_000, unit: "ms" };
  /** Longest wait of a ticket, from its creation. Default 600,000. */
  readonly maxWaitMs: Limit = { default: 600_000, unit: "ms" };
  /**
   * Longest wait of a ticket without a follower: a watch follows it, and so does each GetTicket of
   * its creator. Default 60,000.
   */
  readonly ticketLeaseMs: Limit = { default: 60_000, unit: "ms" };
  /**
   * Time for which a ticket whose watch has ended waits for another, without being matched.
   * Default 10,000.
   */
  readonly awayMs: Limit = { default: 10_000, unit: "ms" };
  /** Least time between two updates of a waiting ticket's position. Default 5,000. */
  readonly positionMs: Limit = { default: 5_000, unit: "ms" };
  /** Time for which an ended ticket is still known. Default 300,000. */
  readonly retainMs: Limit = { default: 300_000, unit: "ms" };
  /** Failed creates of a world through its own fault; then its tickets fail. Default 3. */
  readonly maxAttempts: Limit = { default: 3, unit: "count" };
  /** Matches made in one tick; more wait for the next. Default 500. */
  readonly maxMatchesPerTick: Limit = { default: 500, unit: "count" };
  /** Creates at a time on one server. Default 32. */
  readonly maxCreatesPerServer: Limit = { default: 32, unit: "count" };
  /** Known tickets, including ended ones. Default 500,000. */
  readonly maxTickets: Limit = { default: 500_000, unit: "count" };
  /** Estimated bytes of memory of all tickets. Default 134,217,728. */
  readonly maxTicketsBytes: Limit = { default: 134_217_728, unit: "bytes" };
  /** Bytes of a ticket. Default 16,384. */
  readonly maxTicketBytes: Limit = { default: 16_384, unit: "bytes" };
  /** Agents of one ticket. Default 32. */
  readonly maxPartySize: Limit = { default: 32, unit: "count" };
  /** Tickets of one caller that have not ended. Default 2,000. */
  readonly maxTicketsPerCaller: Limit = { default: 2_000, unit: "count" };
  /** Bytes of memory of one caller's tickets, including ended ones. Default 16,777,216. */
  readonly maxTicketsBytesPerCaller: Limit = { default: 16_777_216, unit: "bytes" };
  /** Watches of tickets at a time. Default 20,000. */
  readonly maxWatches: Limit = { default: 20_000, unit: "count" };
  /** Watches of tickets of one caller at a time. Default 2,000. */
  readonly maxWatchesPerCaller: Limit = { default: 2_000, unit: "count" };
  /** Other calls of agents at a time. Default 8,000. */
  readonly maxCalls: Limit = { default: 8_000, unit: "count" };
  /**
   * Calls of servers, operators and health checks at a time, which agents cannot use up.
   * Default 2,000.
   */
  readonly reservedCalls: Limit = { default: 2_000, unit: "count" };
  /** Calls of one caller at a time, without watches. Default 1,000. */
  readonly maxCallsPerCaller: Limit = { default: 1_000, unit: "count" };
  /** Calls of one caller per second, for longer than 4 s. Default 1,000. */
  readonly maxCallsPerSecond: Limit = { default: 1_000, unit: "count" };
  /** Connections at a time from one IPv4 address, or one IPv6 network of 64 bits. Default 2,000. */
  readonly maxConnectionsPerAddress: Limit = { default: 2_000, unit: "count" };
  /** Servers. Default 1,000. */
  readonly maxServers: Limit = { default: 1_000, unit: "count" };
  /** Worlds of one server. Default 10,000. */
  readonly maxWorldsPerServer: Limit = { default: 10_000, unit: "count" };
  /** Profiles. Default 1,000. */
  readonly maxProfiles: Limit = { default: 1_000, unit: "count" };
  /** Pending changes of a slow watcher. Default 10,000. */
  readonly maxWatchQueue: Limit = { default: 10_000, unit: "count" };
}

/** The times and limits of a matchmaker. An error that a limit causes contains its name. */
export interface MatchmakerSettings extends LimitsOf<SettingTable> {}

const table = new SettingTable();

/** The default settings. */
export const defaultSettings: MatchmakerSettings = readLimits(table);

/**
 * Returns the given settings, with defaults for the others.
 *
 * @throws RangeError if a setting is unknown or out of range.
 */
export function settingsFrom(given?: Partial<MatchmakerSettings>): MatchmakerSettings {
  return readLimits(table, given, "setting");
}
