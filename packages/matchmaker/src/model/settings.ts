// SPDX-License-Identifier: Apache-2.0
import { type Limit, type LimitsOf, readLimits } from "@dm-env-rpc/transport";

class SettingTable {
  /** Interval between ticks while nothing changes. Default 500. */
  readonly tickMs: Limit = { default: 500, unit: "ms" };
  /** Least time between two ticks. Changes during this time are processed together. Default 20. */
  readonly minTickMs: Limit = { default: 20, unit: "ms" };
  /** Time after which another matchmaker takes over from a leader that is gone. Default 5,000. */
  readonly leaderLeaseMs: Limit = { default: 5_000, unit: "ms" };
  /** Silence after which a server is lost: it gets no more worlds. Default 15,000. */
  readonly serverLeaseMs: Limit = { default: 15_000, unit: "ms" };
  /** Time for a lost server to return before its worlds count as ended. Default 30,000. */
  readonly lostServerMs: Limit = { default: 30_000, unit: "ms" };
  /**
   * Least time for which an orphaned world is kept after it is first seen. Then the world is destroyed as
   * soon as it has no agents. A reported world is orphaned if the matchmaker has no record of the world and
   * has not adopted it. Default 10,000.
   */
  readonly orphanMs: Limit = { default: 10_000, unit: "ms" };
  /**
   * Time limit of a create, destroy or reset of a world, and of the allocation of its server.
   * Default 30,000.
   */
  readonly worldCallMs: Limit = { default: 30_000, unit: "ms" };
  /**
   * Pause before a failed create, destroy, match function or `evaluate` is tried again. With each failure in a
   * row, the pause doubles, up to 32 times this value. Default 1,000.
   */
  readonly cooldownMs: Limit = { default: 1_000, unit: "ms" };
  /** Time within which a server that registers must answer at its address. Default 5,000. */
  readonly callbackMs: Limit = { default: 5_000, unit: "ms" };
  /** Time limit of `authorize`; a call for which it takes longer is refused. Default 10,000. */
  readonly authorizeMs: Limit = { default: 10_000, unit: "ms" };
  /** Time limit for one run of a custom match function, and for one call of `evaluate`. Default 1,000. */
  readonly matchFunctionMs: Limit = { default: 1_000, unit: "ms" };
  /**
   * Longest time that a ticket waits: from its creation or, if its world was lost, from when it began to wait again.
   * Default 600,000.
   */
  readonly maxWaitMs: Limit = { default: 600_000, unit: "ms" };
  /**
   * Lease of a waiting ticket. A watch keeps the lease. Without a watch, the ticket's creator must read the
   * ticket (GetTicket) at least once in every third of this time. Default 60,000.
   */
  readonly ticketLeaseMs: Limit = { default: 60_000, unit: "ms" };
  /**
   * Longest time that a ticket whose watch has ended waits for a new watch. In the meantime the ticket is
   * not matched. Default 10,000.
   */
  readonly awayMs: Limit = { default: 10_000, unit: "ms" };
  /** Least time between two updates of a waiting ticket's position. Default 5,000. */
  readonly positionMs: Limit = { default: 5_000, unit: "ms" };
  /** Time for which a ticket is still known after its end. Default 300,000. */
  readonly retainMs: Limit = { default: 300_000, unit: "ms" };
  /**
   * A ticket fails after the create of its world has failed this many times. A create that failed
   * because of its server does not count. Default 3.
   */
  readonly maxAttempts: Limit = { default: 3, unit: "count" };
  /** Maximum number of matches made in one tick. Further matches wait for the next tick. Default 500. */
  readonly maxMatchesPerTick: Limit = { default: 500, unit: "count" };
  /** Concurrent creates on one server. Default 32. */
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
  /** Concurrent watches of tickets. Default 20,000. */
  readonly maxWatches: Limit = { default: 20_000, unit: "count" };
  /** Concurrent watches of tickets by one caller. Default 2,000. */
  readonly maxWatchesPerCaller: Limit = { default: 2_000, unit: "count" };
  /** Concurrent calls of agents, not counting watches. Default 8,000. */
  readonly maxCalls: Limit = { default: 8_000, unit: "count" };
  /**
   * Concurrent calls of servers and operators, which agents cannot use up. Registrations may use three quarters of them,
   * and all calls of servers seven eighths. Default 2,000.
   */
  readonly reservedCalls: Limit = { default: 2_000, unit: "count" };
  /** Concurrent calls of one caller, not counting watches. Default 1,000. */
  readonly maxCallsPerCaller: Limit = { default: 1_000, unit: "count" };
  /**
   * Sustained calls per second of one caller; a burst may use 4 seconds' worth at once.
   * Default 1,000.
   */
  readonly maxCallsPerSecond: Limit = { default: 1_000, unit: "count" };
  /**
   * Concurrent connections and WebSockets from one IPv4 address or one /64 IPv6 network.
   * Default 2,000.
   */
  readonly maxConnectionsPerAddress: Limit = { default: 2_000, unit: "count" };
  /**
   * Floods from one IPv4 address or one /64 IPv6 network: connections that the matchmaker ends because they
   * break HTTP/2 or send too much. After more floods, only one new connection of the address starts per
   * second, until four seconds pass without a flood. 0 disables the limit. Default 3.
   */
  readonly maxFloodsPerAddress: Limit = { default: 3, unit: "count", zero: "no limit" };
  /** Connections that wait to be accepted; the kernel's own limit also applies. Default 4,096. */
  readonly listenBacklog: Limit = { default: 4_096, unit: "count", most: 2 ** 31 - 1 };
  /** Servers. Default 1,000. */
  readonly maxServers: Limit = { default: 1_000, unit: "count" };
  /**
   * Estimated bytes of memory of all servers and their reports. Above it, new servers are refused, and a known
   * server may report at most its share: this many bytes, divided by `maxServers`. Default 134,217,728.
   */
  readonly maxServersBytes: Limit = { default: 134_217_728, unit: "bytes" };
  /**
   * Servers of one caller that `authorize` identifies. Operators have no limit. The default is that of `maxServers`, because
   * a whole fleet may share one identity. Default 1,000.
   */
  readonly maxServersPerCaller: Limit = { default: 1_000, unit: "count" };
  /**
   * Estimated bytes of memory of the servers of one caller that `authorize` identifies, and their reports. Above it, a
   * server may report at most its share: this many bytes, divided by `maxServersPerCaller`, or by `maxServers` if that
   * is less. Operators have no limit. The default is that of `maxServersBytes`. Default 134,217,728.
   */
  readonly maxServersBytesPerCaller: Limit = { default: 134_217_728, unit: "bytes" };
  /** Worlds of one server. Default 10,000. */
  readonly maxWorldsPerServer: Limit = { default: 10_000, unit: "count" };
  /** Profiles. Default 1,000. */
  readonly maxProfiles: Limit = { default: 1_000, unit: "count" };
  /** Changes that may wait for a slow watcher. Default 10,000. */
  readonly maxWatchQueue: Limit = { default: 10_000, unit: "count" };
}

/** The times and limits of a matchmaker. An error that a limit causes contains the limit's name. */
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
