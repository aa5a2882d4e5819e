// SPDX-License-Identifier: Apache-2.0
import { type Limit, type LimitsOf, ListenLimitTable, readLimits } from "@dm-env-rpc/transport";

class RelayLimitTable extends ListenLimitTable {
  /** Programs at a time, those that are away for a moment included. One more is refused with RESOURCE_EXHAUSTED. Default 100. */
  readonly maxPrograms: Limit = { default: 100, unit: "count" };
  /** Streams of agents at a time to one program. One more is refused with RESOURCE_EXHAUSTED. Default 256. */
  readonly maxStreamsPerProgram: Limit = { default: 256, unit: "count" };
  /** Bytes that wait for one program's network. A program past it does not read and is closed. Default 64 MiB. */
  readonly maxUnsentBytesPerProgram: Limit = { default: 64 * 1024 * 1024, unit: "bytes" };
  /** Milliseconds that a program may take to introduce itself; then it is closed with DEADLINE_EXCEEDED. Default 10,000. */
  readonly helloMs: Limit = { default: 10_000, unit: "ms" };
  /** Milliseconds between pings of a program; one that has sent nothing since the last is closed, and its agents lose their streams. Default 5,000. */
  readonly programPingMs: Limit = { default: 5_000, unit: "ms" };
  /** Milliseconds for which the port of a program that was lost is kept for its return. Default 30,000. */
  readonly awayMs: Limit = { default: 30_000, unit: "ms" };
}

/** The limits of a relay. An error that a limit causes has its name. */
export interface RelayLimits extends LimitsOf<RelayLimitTable> {}

const table = new RelayLimitTable();

/** The default limits. */
export const defaultRelayLimits: RelayLimits = readLimits(table);

/**
 * Returns the limits of a relay, with the defaults of those that are not given.
 *
 * @throws RangeError if a limit is unknown or out of range.
 */
export function relayLimits(given?: Partial<RelayLimits>): RelayLimits {
  return readLimits(table, given);
}
