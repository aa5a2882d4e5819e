// SPDX-License-Identifier: Apache-2.0
import {
  defaultMaxDimensions,
  defaultMaxElements,
  defaultMaxEntries,
  defaultMaxMessageWork,
  defaultMaxStringBytes,
} from "@dm-env-rpc/tensor-codec/wire";
import { type Limit, type LimitsOf, ListenLimitTable, readLimits } from "@dm-env-rpc/transport";

class ServerLimitTable extends ListenLimitTable {
  /** Milliseconds for a world's `create`. Default 30,000. */
  readonly createMs: Limit = { default: 30_000, unit: "ms" };
  /** Milliseconds for a world's `join`. Default 30,000. */
  readonly joinMs: Limit = { default: 30_000, unit: "ms" };
  /** Milliseconds for a world's `start`, which begins a sequence. Default 30,000. */
  readonly resetMs: Limit = { default: 30_000, unit: "ms" };
  /**
   * Milliseconds for a world's `step`, and for each call of a property or extension.
   * Default 30,000.
   */
  readonly stepMs: Limit = { default: 30_000, unit: "ms" };
  /**
   * Maximum number of open Process streams on all connections. Open streaming calls of other services, such as
   * reflection, have the same limit and are counted separately; so are unary calls, such as health checks. A
   * further stream or call is ended with RESOURCE_EXHAUSTED. Default 10,000.
   */
  override readonly maxStreams: Limit = { default: 10_000, unit: "count" };
  /**
   * Maximum number of open calls of spectators from one IPv4 address, or one IPv6 network of 64
   * bits. A further call is ended with RESOURCE_EXHAUSTED. Default 256.
   */
  readonly maxSpectatorsPerAddress: Limit = { default: 256, unit: "count" };
  /**
   * Maximum number of worlds. A create of a further world is answered with RESOURCE_EXHAUSTED.
   * Default 1,000.
   */
  readonly maxWorlds: Limit = { default: 1_000, unit: "count" };
  /**
   * Maximum number of agents in one world, regardless of the world's `agents.max`. A further join
   * is answered with RESOURCE_EXHAUSTED. Default 1,000.
   */
  readonly maxAgentsPerWorld: Limit = { default: 1_000, unit: "count" };
  /**
   * Maximum number of slots in all batches of one world. Each slot also counts towards the world's
   * `agents.max`. A join that exceeds the limit is answered with RESOURCE_EXHAUSTED.
   * Default 16,384.
   */
  readonly maxSlotsPerWorld: Limit = { default: 16_384, unit: "count" };
  /**
   * Maximum number of bytes that a server keeps, in all worlds, for the observations of undelivered ends, which it copies
   * before a world changes. While more than a quarter of the limit is in use, an end keeps only what its agent requested
   * last, and small observations; worlds that hold less than an equal share of this quarter still keep everything. Above
   * the limit, the world that holds the most bytes drops its oldest ends. An agent whose step requests an observation that
   * was not kept receives RESOURCE_EXHAUSTED. Default 64 MiB.
   */
  readonly maxUndeliveredEndBytes: Limit = { default: 64 * 1024 * 1024, unit: "bytes" };
  /**
   * Maximum number of elements of one tensor, before and after broadcasting; checked before
   * anything is allocated. A request above it is answered with RESOURCE_EXHAUSTED. Default 2^24.
   */
  readonly maxElements: Limit = { default: defaultMaxElements, unit: "count" };
  /**
   * Maximum number of bytes of one string in a tensor, in UTF-8. A request above it is answered
   * with RESOURCE_EXHAUSTED. Default 2^24.
   */
  readonly maxStringBytes: Limit = { default: defaultMaxStringBytes, unit: "bytes" };
  /**
   * Maximum number of actions or requested observations of a step, and of elements of a PROTO
   * tensor. In other requests, the maximum total size of maps and lists (settings, keys, strings,
   * protos), without lists of numbers. A repeated key counts each time. A request above it is
   * answered with RESOURCE_EXHAUSTED. Default 2^16.
   */
  readonly maxEntries: Limit = { default: defaultMaxEntries, unit: "count" };
  /**
   * Maximum number of dimensions of one tensor; 64 is NumPy's limit. A request above it is answered
   * with RESOURCE_EXHAUSTED. Default 64.
   */
  readonly maxDimensions: Limit = { default: defaultMaxDimensions, unit: "count" };
  /**
   * Maximum work to decode one request, in units; a request above it is refused with
   * RESOURCE_EXHAUSTED. A field costs 1 unit, or at most 4 if it holds a string, bytes or a message.
   * In a step, a packed field of a tensor's integers costs 1 more per 16 bytes, and each dimension
   * and each requested UID costs 1. In any other request, a packed field of numbers costs 1 more per
   * two numbers, and a string 1 more per 32 bytes. The bytes of INT8 and UINT8 tensors, and of a
   * step's booleans, floats and strings, are free. Decoding 2^18 units takes at most 33 ms. Default 2^18.
   */
  readonly maxMessageWork: Limit = { default: defaultMaxMessageWork, unit: "count" };
  /**
   * Maximum number of requests of one stream that are read ahead; above it the server pauses
   * reading, without losing requests. Default 256.
   */
  readonly maxQueuedRequests: Limit = { default: 256, unit: "count" };
  /**
   * Bytes of the requests of one stream that are read ahead, after decompression. Reading pauses
   * after the request that exceeds it. Default 1 MiB.
   */
  readonly maxQueuedBytes: Limit = { default: 1024 * 1024, unit: "bytes" };
  /**
   * Milliseconds for `authorize`; a stream that takes longer is ended with DEADLINE_EXCEEDED.
   * Default 10,000.
   */
  readonly authorizeMs: Limit = { default: 10_000, unit: "ms" };
  /**
   * Milliseconds after which a stream that has joined no world and sends no requests is ended with
   * DEADLINE_EXCEEDED, and a call of another service whose request has not ended is reset; 0 never.
   * Default 600,000.
   */
  override readonly idleStreamMs: Limit = { default: 600_000, unit: "ms", zero: "never" };
  /**
   * Milliseconds after which a world without agents is destroyed, except premade ones; 0 never.
   * Default 0.
   */
  readonly idleWorldMs: Limit = { default: 0, unit: "ms", zero: "never" };
}

/**
 * Time limits for the code of a world. A world that takes longer has failed: its agents receive
 * DEADLINE_EXCEEDED, with the limit's name, and other worlds continue.
 */
export interface CallLimits
  extends Pick<LimitsOf<ServerLimitTable>, "createMs" | "joinMs" | "resetMs" | "stepMs"> {}

/** The limits of a server. An error that a limit causes contains its name. */
export interface ServerLimits extends LimitsOf<ServerLimitTable> {}

const table = new ServerLimitTable();

/** The default limits. */
export const defaultLimits: ServerLimits = readLimits(table);

/**
 * Limits for a server that only trusted clients can reach, such as a training cluster: wider than
 * the defaults, which protect a server on the open internet.
 *
 * @example
 * await serve({ worlds: [world], limits: { ...trustedLimits, maxWorlds: 10_000 } });
 */
export const trustedLimits: Partial<ServerLimits> = {
  maxConnections: 100_000,
  maxConnectionsPerAddress: 100_000,
  maxFloodsPerAddress: 0,
  listenBacklog: 65_535,
  maxStreamsPerConnection: 10_000,
  maxStreams: 100_000,
  maxStreamsPerAddress: 100_000,
  maxSpectatorsPerAddress: 10_000,
  maxRequestsPerSecond: 0,
  maxBufferedBytes: 4 * 1024 * 1024 * 1024,
  maxBufferedBytesPerConnection: 1024 * 1024 * 1024,
  maxUndeliveredEndBytes: 4 * 1024 * 1024 * 1024,
};

/**
 * Returns the given limits of a server, with defaults for the others.
 *
 * @throws RangeError if a limit is unknown or out of range.
 */
export function limitsFrom(given?: Partial<ServerLimits>): ServerLimits {
  return readLimits(table, given);
}
