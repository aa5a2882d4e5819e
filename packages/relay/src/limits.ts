// SPDX-License-Identifier: Apache-2.0
import { type Limit, type LimitsOf, ListenLimitTable, readLimits } from "@dm-env-rpc/transport";

class RelayLimitTable extends ListenLimitTable {
  /**
   * Maximum number of programs, including those that are temporarily disconnected. One more is refused with
   * RESOURCE_EXHAUSTED. Default 100.
   */
  readonly maxPrograms: Limit = { default: 100, unit: "count" };
  /** Maximum number of agents' streams to one program. One more is refused with RESOURCE_EXHAUSTED. Default 256. */
  readonly maxStreamsPerProgram: Limit = { default: 256, unit: "count" };
  /**
   * Maximum number of bytes that wait to be sent to one program. A program that reads too slowly and exceeds the limit
   * is closed. Default 64 MiB.
   */
  readonly maxUnsentBytesPerProgram: Limit = { default: 64 * 1024 * 1024, unit: "bytes" };
  /** Milliseconds after which a program that has not introduced itself is closed with DEADLINE_EXCEEDED. Default 10,000. */
  readonly helloMs: Limit = { default: 10_000, unit: "ms" };
  /**
   * Milliseconds between pings of a program. A program that has sent nothing since the last ping is closed, and its
   * agents' streams end with UNAVAILABLE. Default 5,000.
   */
  readonly programPingMs: Limit = { default: 5_000, unit: "ms" };
  /** Milliseconds for which the port of a disconnected program is kept for it. Default 30,000. */
  readonly awayMs: Limit = { default: 30_000, unit: "ms" };
}

/** The limits of a relay. Errors name the limit that caused them. */
export interface RelayLimits extends LimitsOf<RelayLimitTable> {}

const table = new RelayLimitTable();

/** The default limits. */
export const defaultRelayLimits: RelayLimits = readLimits(table);

/**
 * Returns the limits of a relay, with defaults for the limits that are not given.
 *
 * @throws RangeError if a limit is unknown or out of range.
 */
export function relayLimits(given?: Partial<RelayLimits>): RelayLimits {
  return readLimits(table, given);
}
