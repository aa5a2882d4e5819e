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
  /** Milliseconds for a world's `step`, and for what answers a property or an extension of a world. Default 30,000. */
  readonly stepMs: Limit = { default: 30_000, unit: "ms" };
  /**
   * Process streams at a time, on all connections: those of agents and of operators; and as many
   * calls of health, reflection and other services. One more is ended with RESOURCE_EXHAUSTED.
   * Default 10,000.
   */
  override readonly maxStreams: Limit = { default: 10_000, unit: "count" };
  /** Worlds at a time. A create of one more is answered with RESOURCE_EXHAUSTED. Default 1,000. */
  readonly maxWorlds: Limit = { default: 1_000, unit: "count" };
  /**
   * Agents in one world, regardless of its own `agents.max`. A join of one more is answered with
   * RESOURCE_EXHAUSTED. Default 1,000.
   */
  readonly maxAgentsPerWorld: Limit = { default: 1_000, unit: "count" };
  /** Slots in all batches of one world, each of which also counts as an agent for the world's own `agents.max`. A join of more is answered with RESOURCE_EXHAUSTED. Default 16,384. */
  readonly maxSlotsPerWorld: Limit = { default: 16_384, unit: "count" };
  /** Elements of one tensor, after a broadcast too; checked before anything is allocated. The request is answered with RESOURCE_EXHAUSTED. Default 2^24. */
  readonly maxElements: Limit = { default: defaultMaxElements, unit: "count" };
  /** Bytes of one string in a tensor, in UTF-8. The request is answered with RESOURCE_EXHAUSTED. Default 2^24. */
  readonly maxStringBytes: Limit = { default: defaultMaxStringBytes, unit: "bytes" };
  /**
   * Actions or requested observations of a step, and elements of a PROTO tensor. In other requests,
   * the total size of maps and lists, except those of numbers: settings, keys, strings, protos. A repeated key counts
   * each time. The request is answered with RESOURCE_EXHAUSTED. Default 2^16.
   */
  readonly maxEntries: Limit = { default: defaultMaxEntries, unit: "count" };
  /** Dimensions of one tensor; 64 is NumPy's limit. The request is answered with RESOURCE_EXHAUSTED. Default 64. */
  readonly maxDimensions: Limit = { default: defaultMaxDimensions, unit: "count" };
  /**
   * Work of decoding one request, which is refused with RESOURCE_EXHAUSTED before it is decoded. A field costs 1, and 4 if
   * it holds a string, bytes or a message. Numbers in one packed field cost 1 for every 16 bytes of integers in a
   * step, and 1 for every two in any other request, whose strings cost 1 for every 32 bytes. The bytes of INT8, UINT8 and BOOL
   * tensors, and of a step's floats and strings, are free. 2^18 take 33 ms at most. Default 2^18.
   */
  readonly maxMessageWork: Limit = { default: defaultMaxMessageWork, unit: "count" };
  /**
   * Requests of one stream that are read ahead; past it the server stops reading, without losing
   * any. Default 256.
   */
  readonly maxQueuedRequests: Limit = { default: 256, unit: "count" };
  /**
   * Bytes of the requests of one stream that are read ahead, after inflation; the request that
   * exceeds it is the last. Default 1 MiB.
   */
  readonly maxQueuedBytes: Limit = { default: 1024 * 1024, unit: "bytes" };
  /** Milliseconds that `authorize` may take; then the stream is ended with DEADLINE_EXCEEDED. Default 10,000. */
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
 * Limits for a server that only trusted clients reach, such as a training cluster: wider where the
 * defaults are those of a server on the open internet.
 *
 * @example
 * await serve({ worlds: [world], limits: { ...trustedLimits, maxWorlds: 10_000 } });
 */
export const trustedLimits: Partial<ServerLimits> = {
  maxConnections: 100_000,
  maxConnectionsPerAddress: 100_000,
  maxStreamsPerConnection: 10_000,
  maxStreams: 100_000,
  maxRequestsPerSecond: 0,
  maxBufferedBytes: 4 * 1024 * 1024 * 1024,
  maxBufferedBytesPerConnection: 1024 * 1024 * 1024,
};

/**
 * Returns the given limits of a server, with defaults for the others.
 *
 * @throws RangeError if a limit is unknown or out of range.
 */
export function limitsFrom(given?: Partial<ServerLimits>): ServerLimits {
  return readLimits(table, given);
}
