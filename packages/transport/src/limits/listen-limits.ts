// SPDX-License-Identifier: Apache-2.0
import { type Limit, type LimitsOf, readLimits } from "./limit-table.ts";
import { defaultMaxMessageBytes } from "./limits.ts";

/** The limits of a listener. The server's table extends it. */
export class ListenLimitTable {
  /** HTTP/2 connections and WebSockets at a time. One more is told so and closed. Default 10,000. */
  readonly maxConnections: Limit = { default: 10_000, unit: "count" };
  /** HTTP/2 connections at a time from one IPv4 address, or one IPv6 network of 64 bits. One more is told so and closed. Default 10,000. */
  readonly maxConnectionsPerAddress: Limit = { default: 10_000, unit: "count" };
  /** Streams at a time on one HTTP/2 connection; clients wait with one more, or are refused. Default 256. */
  readonly maxStreamsPerConnection: Limit = { default: 256, unit: "count", most: 2 ** 32 - 1 };
  /** Calls of `routes` at a time, Process streams not counted. One more is refused with RESOURCE_EXHAUSTED. Default 10,000. */
  readonly maxStreams: Limit = { default: 10_000, unit: "count" };
  /** Bytes of one message, after inflation too. A larger one is dropped as it arrives and answered with RESOURCE_EXHAUSTED in its turn, which ends its stream. Default 64 MiB. */
  readonly maxMessageBytes: Limit = {
    default: defaultMaxMessageBytes,
    unit: "bytes",
    most: 2 ** 32 - 1,
  };
  /**
   * The same of a request by Connect or gRPC-Web, which is made into objects, at up to a hundred times its
   * size, before what is in it can be counted. Default 1 MiB.
   */
  readonly maxConnectRequestBytes: Limit = { default: 1024 * 1024, unit: "bytes" };
  /**
   * Bytes received of messages that nobody has taken yet, on all streams: not whole, being inflated, or
   * waiting behind a request. Past it the stream that holds most is ended with RESOURCE_EXHAUSTED. Default 1 GiB.
   */
  readonly maxBufferedBytes: Limit = { default: 1024 * 1024 * 1024, unit: "bytes" };
  /** The same on the streams of one connection; one message of one stream always fits. Default 128 MiB. */
  readonly maxBufferedBytesPerConnection: Limit = { default: 128 * 1024 * 1024, unit: "bytes" };
  /** Milliseconds after which a stream that has sent a part of a message, and nothing more, is ended with DEADLINE_EXCEEDED; 0 never. Default 60,000. */
  readonly stalledMessageMs: Limit = { default: 60_000, unit: "ms", zero: "never" };
  /** Milliseconds between pings of each HTTP/2 connection and WebSocket; one that has not answered the last is closed, and its agents leave; 0 never. Default 30,000. */
  readonly pingIntervalMs: Limit = { default: 30_000, unit: "ms", zero: "never" };
  /** Milliseconds after which an HTTP/2 connection without streams is closed; 0 never. Default 300,000. */
  readonly idleConnectionMs: Limit = { default: 300_000, unit: "ms", zero: "never" };
  /** Milliseconds after which a silent call of `routes` whose request has not ended is reset; 0 never. Default 600,000. */
  readonly idleStreamMs: Limit = { default: 600_000, unit: "ms", zero: "never" };
}

/** What a listener allows. */
export interface ListenLimits extends LimitsOf<ListenLimitTable> {}

const table = new ListenLimitTable();

/**
 * Returns the limits among a listener's options, with the defaults of those that are not given.
 *
 * @throws RangeError if a limit is out of range.
 */
export function listenLimits(
  options: {
    readonly [Name in keyof ListenLimits]?: number | undefined;
  },
): ListenLimits {
  const given: Partial<ListenLimits> = Object.fromEntries(
    Object.entries(options).filter(([name]) => Object.hasOwn(table, name)),
  );
  return readLimits(table, given);
}
