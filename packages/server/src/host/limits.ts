// SPDX-License-Identifier: Apache-2.0
import {
  DEFAULT_MAX_ELEMENTS,
  DEFAULT_MAX_ENTRIES,
  DEFAULT_MAX_STRING_BYTES,
} from "@dm-env-rpc/tensor-codec";
import { type Limit, type LimitsOf, readLimits } from "@dm-env-rpc/transport";

class CallLimitTable {
  /** Milliseconds for a world's `create`. Default 30,000. */
  readonly createMs: Limit = { default: 30_000, unit: "ms" };
  /** Milliseconds for a world's `join`. Default 30,000. */
  readonly joinMs: Limit = { default: 30_000, unit: "ms" };
  /** Milliseconds for a world's `start`, which begins a sequence. Default 30,000. */
  readonly resetMs: Limit = { default: 30_000, unit: "ms" };
  /** Milliseconds for a world's `step`, and for what answers a property or an extension of a world. Default 30,000. */
  readonly stepMs: Limit = { default: 30_000, unit: "ms" };
}

class ServerLimitTable extends CallLimitTable {
  /** HTTP/2 connections at a time. One more is told so and closed. Default 10,000. */
  readonly maxConnections: Limit = { default: 10_000, unit: "count" };
  /** Streams at a time on one HTTP/2 connection; clients wait with one more, or are refused. Default 256. */
  readonly maxStreamsPerConnection: Limit = { default: 256, unit: "count", most: 2 ** 32 - 1 };
  /** Process streams at a time, on all connections: the agents, and whoever creates worlds; and as many calls of health, reflection and other services. One more is ended with RESOURCE_EXHAUSTED. Default 10,000. */
  readonly maxStreams: Limit = { default: 10_000, unit: "count" };
  /** Worlds at a time. A create of one more is answered with RESOURCE_EXHAUSTED. Default 1,000. */
  readonly maxWorlds: Limit = { default: 1_000, unit: "count" };
  /** Agents in one world, whatever its own `agents.max` says. A join of one more is answered with RESOURCE_EXHAUSTED. Default 1,000. */
  readonly maxAgentsPerWorld: Limit = { default: 1_000, unit: "count" };
  /** Bytes of one message, after inflation too. A larger one ends its stream with RESOURCE_EXHAUSTED. Default 64 MiB. */
  readonly maxMessageBytes: Limit = { default: 64 * 1024 * 1024, unit: "bytes", most: 2 ** 32 - 1 };
  /**
   * The same of a request by Connect or gRPC-Web, which is made into objects, at up to a hundred times its
   * size, before what is in it can be counted. Default 1 MiB.
   */
  readonly maxConnectRequestBytes: Limit = { default: 1024 * 1024, unit: "bytes" };
  /** Elements of one tensor, after a broadcast too; checked before anything is allocated. The request is answered with RESOURCE_EXHAUSTED. Default 2^24. */
  readonly maxElements: Limit = { default: DEFAULT_MAX_ELEMENTS, unit: "count" };
  /** Bytes of one string in a tensor, in UTF-8. The request is answered with RESOURCE_EXHAUSTED. Default 2^24. */
  readonly maxStringBytes: Limit = { default: DEFAULT_MAX_STRING_BYTES, unit: "bytes" };
  /** Actions or requested observations of a step, and elements of a PROTO tensor; in a request that is no step, what its maps and lists hold together: settings, keys, strings, protos, and sixteen numbers for one (INT8 and UINT8 tensors count nothing). The request is answered with RESOURCE_EXHAUSTED. Default 2^16. */
  readonly maxEntries: Limit = { default: DEFAULT_MAX_ENTRIES, unit: "count" };
  /** Requests of one stream that are read ahead; past it the server stops reading, and nothing is lost. Default 256. */
  readonly maxQueuedRequests: Limit = { default: 256, unit: "count" };
  /** Bytes of the requests of one stream that are read ahead, after inflation; the request that goes past it is the last. Default 1 MiB. */
  readonly maxQueuedBytes: Limit = { default: 1024 * 1024, unit: "bytes" };
  /**
   * Bytes received of messages that nobody has taken yet, on all streams: not whole, being inflated, or
   * waiting behind a request. Past it the stream that holds most is ended with RESOURCE_EXHAUSTED. Default 1 GiB.
   */
  readonly maxBufferedBytes: Limit = { default: 1024 * 1024 * 1024, unit: "bytes" };
  /** The same on the streams of one connection; one message of one stream always fits. Default 128 MiB. */
  readonly maxBufferedBytesPerConnection: Limit = { default: 128 * 1024 * 1024, unit: "bytes" };
  /** Milliseconds after which a stream that has sent a part of a message, and nothing more, is ended with DEADLINE_EXCEEDED; 0 never. Default 60,000. */
  readonly stalledMessageMs: Limit = { default: 60_000, unit: "ms", zero: "never" };
  /** Milliseconds that `authorize` may take; then the stream is ended with DEADLINE_EXCEEDED. Default 10,000. */
  readonly authorizeMs: Limit = { default: 10_000, unit: "ms" };
  /** Milliseconds between pings of each HTTP/2 connection; one that has not answered the last is closed, and its agents leave; 0 never. Default 30,000. */
  readonly pingIntervalMs: Limit = { default: 30_000, unit: "ms", zero: "never" };
  /** Milliseconds after which an HTTP/2 connection without streams is closed; 0 never. Default 300,000. */
  readonly idleConnectionMs: Limit = { default: 300_000, unit: "ms", zero: "never" };
  /** Milliseconds after which a stream that has joined no world and asks nothing is ended with DEADLINE_EXCEEDED, and a call of another service whose request has not ended is reset; 0 never. Default 600,000. */
  readonly idleStreamMs: Limit = { default: 600_000, unit: "ms", zero: "never" };
  /** Milliseconds after which a world without agents is destroyed, premade ones excepted; 0 never. Default 0. */
  readonly idleWorldMs: Limit = { default: 0, unit: "ms", zero: "never" };
}

/**
 * How long the code of a world may take. A world that takes longer has failed: its
 * agents are told DEADLINE_EXCEEDED, with the limit's name, and other worlds go on.
 */
export interface CallLimits extends LimitsOf<CallLimitTable> {}

/** What a server puts up with. Each limit is named in the error of whoever meets it. */
export interface ServerLimits extends LimitsOf<ServerLimitTable> {}

const table = new ServerLimitTable();

/** The limits of a server that was told nothing else. */
export const defaultLimits: ServerLimits = readLimits(table);

/**
 * The limits of a server, those that were not given by default.
 *
 * @throws RangeError naming a limit that is none.
 */
export function limitsFrom(given?: Partial<ServerLimits>): ServerLimits {
  return readLimits(table, given);
}
