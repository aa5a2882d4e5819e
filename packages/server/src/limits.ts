// SPDX-License-Identifier: Apache-2.0
import {
  DEFAULT_MAX_ELEMENTS,
  DEFAULT_MAX_ENTRIES,
  DEFAULT_MAX_STRING_BYTES,
} from "@dm-env-rpc/tensor-codec";
import { maxTimeoutMs } from "@dm-env-rpc/transport";

/**
 * How long the code of a world may take. A world that takes longer has failed: its
 * agents are told DEADLINE_EXCEEDED, with the limit's name, and other worlds go on.
 */
export interface CallLimits {
  /** Milliseconds for a world's `create`. Default 30,000. */
  readonly createMs: number;
  /** Milliseconds for a world's `join`. Default 30,000. */
  readonly joinMs: number;
  /** Milliseconds for a world's `start`, which begins a sequence. Default 30,000. */
  readonly resetMs: number;
  /** Milliseconds for a world's `step`, and for what answers a property or an extension of a world. Default 30,000. */
  readonly stepMs: number;
}

/** What a server puts up with. Each limit is named in the error of whoever meets it. */
export interface ServerLimits extends CallLimits {
  /** HTTP/2 connections at a time. One more is told so and closed. Default 10,000. */
  readonly maxConnections: number;
  /** Streams at a time on one HTTP/2 connection; clients wait with one more, or are refused. Default 256. */
  readonly maxStreamsPerConnection: number;
  /** Process streams at a time, on all connections: the agents, and whoever creates worlds; and as many calls of health, reflection and other services. One more is ended with RESOURCE_EXHAUSTED. Default 10,000. */
  readonly maxStreams: number;
  /** Worlds at a time. A create of one more is answered with RESOURCE_EXHAUSTED. Default 1,000. */
  readonly maxWorlds: number;
  /** Agents in one world, whatever its own `agents.max` says. A join of one more is answered with RESOURCE_EXHAUSTED. Default 1,000. */
  readonly maxAgentsPerWorld: number;
  /** Bytes of one message, after inflation too. A larger one ends its stream with RESOURCE_EXHAUSTED. Default 64 MiB. */
  readonly maxMessageBytes: number;
  /**
   * The same of a request by Connect or gRPC-Web, which is made into objects, at up to a hundred times its
   * size, before what is in it can be counted. Default 1 MiB.
   */
  readonly maxConnectRequestBytes: number;
  /** Elements of one tensor, after a broadcast too; checked before anything is allocated. The request is answered with RESOURCE_EXHAUSTED. Default 2^24. */
  readonly maxElements: number;
  /** Bytes of one string in a tensor, in UTF-8. The request is answered with RESOURCE_EXHAUSTED. Default 2^24. */
  readonly maxStringBytes: number;
  /** Actions or requested observations of a step, and elements of a PROTO tensor; in a request that is no step, what its maps and lists hold together: settings, keys, strings, protos, and sixteen numbers for one (INT8 and UINT8 tensors count nothing). The request is answered with RESOURCE_EXHAUSTED. Default 2^16. */
  readonly maxEntries: number;
  /** Requests of one stream that are read ahead; past it the server stops reading, and nothing is lost. Default 256. */
  readonly maxQueuedRequests: number;
  /** Bytes of the requests of one stream that are read ahead, after inflation; the request that goes past it is the last. Default 1 MiB. */
  readonly maxQueuedBytes: number;
  /**
   * Bytes received of messages that nobody has taken yet, on all streams: not whole, being inflated, or
   * waiting behind a request. Past it the stream that holds most is ended with RESOURCE_EXHAUSTED. Default 1 GiB.
   */
  readonly maxBufferedBytes: number;
  /** The same on the streams of one connection; one message of one stream always fits. Default 128 MiB. */
  readonly maxBufferedBytesPerConnection: number;
  /** Milliseconds after which a stream that has sent a part of a message, and nothing more, is ended with DEADLINE_EXCEEDED; 0 never. Default 60,000. */
  readonly stalledMessageMs: number;
  /** Milliseconds that `authorize` may take; then the stream is ended with DEADLINE_EXCEEDED. Default 10,000. */
  readonly authorizeMs: number;
  /** Milliseconds between pings of each HTTP/2 connection; one that has not answered the last is closed, and its agents leave; 0 never. Default 30,000. */
  readonly pingIntervalMs: number;
  /** Milliseconds after which an HTTP/2 connection without streams is closed; 0 never. Default 300,000. */
  readonly idleConnectionMs: number;
  /** Milliseconds after which a stream that has joined no world and asks nothing is ended with DEADLINE_EXCEEDED, and a call of another service whose request has not ended is reset; 0 never. Default 600,000. */
  readonly idleStreamMs: number;
  /**
   * Milliseconds after which a world without agents is destroyed, premade ones excepted;
   * 0, the default, never: a world is there until it is destroyed.
   */
  readonly idleWorldMs: number;
}

/** The limits of a server that was told nothing else. */
export const defaultLimits: Readonly<ServerLimits> = {
  maxConnections: 10_000,
  maxStreamsPerConnection: 256,
  maxStreams: 10_000,
  maxWorlds: 1_000,
  maxAgentsPerWorld: 1_000,
  maxMessageBytes: 64 * 1024 * 1024,
  maxConnectRequestBytes: 1024 * 1024,
  maxElements: DEFAULT_MAX_ELEMENTS,
  maxStringBytes: DEFAULT_MAX_STRING_BYTES,
  maxEntries: DEFAULT_MAX_ENTRIES,
  maxQueuedRequests: 256,
  maxQueuedBytes: 1024 * 1024,
  maxBufferedBytes: 1024 * 1024 * 1024,
  maxBufferedBytesPerConnection: 128 * 1024 * 1024,
  stalledMessageMs: 60_000,
  createMs: 30_000,
  joinMs: 30_000,
  resetMs: 30_000,
  stepMs: 30_000,
  authorizeMs: 10_000,
  pingIntervalMs: 30_000,
  idleConnectionMs: 300_000,
  idleStreamMs: 600_000,
  idleWorldMs: 0,
};

/**
 * The limits of a server, those that were not given by default.
 *
 * @throws RangeError naming a limit that is none.
 */
export function limitsFrom(given: Partial<ServerLimits> = {}): ServerLimits {
  const limits = { ...defaultLimits };
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (!isLimit(name)) {
      const known = Object.keys(defaultLimits).join(", ");
      throw new RangeError(`there is no limit "${name}"; there are: ${known}`);
    }
    check(name, value);
    limits[name] = value;
  }
  return limits;
}

function isLimit(name: string): name is keyof ServerLimits {
  return name in defaultLimits;
}

/** @throws RangeError saying what the limit can be. */
function check(name: keyof ServerLimits, value: number): void {
  const isTime = name.endsWith("Ms");
  const least = mayBeZero.has(name) ? 0 : 1;
  const most = isTime ? maxTimeoutMs : (mostOf[name] ?? Number.POSITIVE_INFINITY);
  const isWhole = Number.isInteger(value) || value === Number.POSITIVE_INFINITY;
  if (value >= least && value <= most && (isTime || isWhole)) return;
  throw new RangeError(
    `limit ${name}: expected a ${isTime ? "" : "whole "}number ${
      most === Number.POSITIVE_INFINITY ? `of at least ${least}` : `from ${least} to ${most}`
    }, received ${value}${least === 0 && value > most ? "; 0 is never" : ""}`,
  );
}

const mayBeZero: ReadonlySet<string> = new Set([
  "idleConnectionMs",
  "idleStreamMs",
  "idleWorldMs",
  "pingIntervalMs",
  "stalledMessageMs",
]);

/** What HTTP/2 and gRPC have fields for. */
const mostOf: Partial<Record<keyof ServerLimits, number>> = {
  maxStreamsPerConnection: 2 ** 32 - 1,
  maxMessageBytes: 2 ** 32 - 1,
};
