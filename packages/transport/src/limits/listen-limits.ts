// SPDX-License-Identifier: Apache-2.0
import { type Limit, type LimitsOf, readLimits } from "./limit-table.ts";
import { defaultMaxMessageBytes } from "./limits.ts";

/** Limits of a listener. The server's table extends it. */
export class ListenLimitTable {
  /**
   * Open connections and WebSockets. Further connections are refused with an error; while 256 handshakes and refusals
   * are in progress, they are closed without one. Default 10,000.
   */
  readonly maxConnections: Limit = { default: 10_000, unit: "count" };
  /**
   * Open connections and WebSockets from one IPv4 address, or one IPv6 network of 64 bits. Further connections
   * are refused with an error. Default 2,000.
   */
  readonly maxConnectionsPerAddress: Limit = { default: 2_000, unit: "count" };
  /**
   * Floods from one IPv4 address, or one IPv6 network of 64 bits: connections that break HTTP/2, send many times more
   * frames than their messages need, or have too many requests refused. Streams that the address abandons within a second
   * of opening them count, too. Above the limit, one new connection of the address starts per second, and its other new
   * connections wait. Its connections from before the floods are closed if they have made no call, or only calls that were
   * refused. The count begins again after four seconds without a flood. 0 disables the limit; the connections of an
   * address are then not summed up, either. Default 3.
   */
  readonly maxFloodsPerAddress: Limit = { default: 3, unit: "count", zero: "no limit" };
  /**
   * Connections that wait to be accepted while the process is busy. Further connections are not answered until their
   * client tries again after a second or more. The kernel's own limit applies, too (`net.core.somaxconn` on Linux).
   * Default 4,096.
   */
  readonly listenBacklog: Limit = { default: 4_096, unit: "count", most: 2 ** 31 - 1 };
  /** Open streams on one HTTP/2 connection; clients queue or refuse further streams. Default 256. */
  readonly maxStreamsPerConnection: Limit = { default: 256, unit: "count", most: 2 ** 32 - 1 };
  /**
   * Concurrent streaming calls of `routes`, and of Process over HTTP/1.1; Process streams over HTTP/2 and WebSockets are
   * not counted. Unary calls, such as health checks, have the same limit and are counted separately. Further calls are
   * refused with RESOURCE_EXHAUSTED. Default 10,000.
   */
  readonly maxStreams: Limit = { default: 10_000, unit: "count" };
  /**
   * Part of `maxStreams` that one IPv4 address, or one IPv6 network of 64 bits, may use. Its further streams and calls
   * are refused with RESOURCE_EXHAUSTED. Default 2,500.
   */
  readonly maxStreamsPerAddress: Limit = { default: 2_500, unit: "count" };
  /**
   * Requests per second from one IPv4 address, or one IPv6 network of 64 bits, with bursts of up to four seconds'
   * worth. New streams, calls and other HTTP requests share one budget; requests on streams have another. Steps and
   * leaves are not counted. If `authorize` grants a stream the role `operator`, none of its requests are counted.
   * Further requests are answered with RESOURCE_EXHAUSTED, and a connection with thousands of them is ended; 0 disables
   * the limit. Default 5,000.
   */
  readonly maxRequestsPerSecond: Limit = { default: 5_000, unit: "count", zero: "no limit" };
  /**
   * Bytes of one message, also after inflation. A larger message is dropped as it arrives. It is answered
   * in its turn with RESOURCE_EXHAUSTED, which ends its stream. Default 64 MiB.
   */
  readonly maxMessageBytes: Limit = {
    default: defaultMaxMessageBytes,
    unit: "bytes",
    most: 2 ** 32 - 1,
  };
  /**
   * Bytes of one request that is in JSON, arrives over HTTP/1.1, or calls a method of `routes`. Keep the limit small:
   * such a request is decoded into objects of up to 100 times its size before other limits apply. A service may set its
   * own `readMaxBytes`. Default 256 KiB.
   */
  readonly maxConnectRequestBytes: Limit = { default: 256 * 1024, unit: "bytes" };
  /**
   * Bytes of one request over a WebSocket. A request that arrives in several frames is stored as a whole before it is
   * checked, and each of its frames is unmasked in one turn of the event loop. Default 4 MiB.
   */
  readonly maxWebSocketRequestBytes: Limit = { default: 4 * 1024 * 1024, unit: "bytes" };
  /**
   * Undelivered bytes of all streams and calls: messages that are incomplete, are being inflated, wait behind a
   * request, or are not read by their peer. The requests of a stream wait while 256 KiB of its responses are unread;
   * while more than a quarter of the limit is in use, they wait while 16 KiB are unread. Above the limit, a stream of the
   * address that holds the most bytes ends with RESOURCE_EXHAUSTED. Default 80 MiB.
   */
  readonly maxBufferedBytes: Limit = { default: 80 * 1024 * 1024, unit: "bytes" };
  /**
   * Undelivered bytes of the streams and calls of one connection. If one stream holds all of them, it is not ended, so
   * that one message always fits. Default 64 MiB.
   */
  readonly maxBufferedBytesPerConnection: Limit = { default: 64 * 1024 * 1024, unit: "bytes" };
  /**
   * A stream ends with DEADLINE_EXCEEDED if no byte of an incomplete message arrives for this many milliseconds; 0
   * disables the limit. Default 60,000.
   */
  readonly stalledMessageMs: Limit = { default: 60_000, unit: "ms", zero: "never" };
  /**
   * Milliseconds between pings of each HTTP/2 connection and WebSocket. A connection that has not
   * answered the last ping is closed, and its agents leave; 0 disables pings. Default 30,000.
   */
  readonly pingIntervalMs: Limit = { default: 30_000, unit: "ms", zero: "never" };
  /** Milliseconds after which an HTTP/2 connection without streams is closed; 0 disables the limit. Default 300,000. */
  readonly idleConnectionMs: Limit = { default: 300_000, unit: "ms", zero: "never" };
  /**
   * A call of `routes` whose request has not ended is reset after this many milliseconds of silence; 0 disables the
   * limit. Default 600,000.
   */
  readonly idleStreamMs: Limit = { default: 600_000, unit: "ms", zero: "never" };
}

/** Values of a listener's limits. */
export interface ListenLimits extends LimitsOf<ListenLimitTable> {}

const table = new ListenLimitTable();

/**
 * Returns a listener's limits: the limits that its options set, and the defaults of all others.
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
