// SPDX-License-Identifier: Apache-2.0
import { type BufferPool, createBufferPool } from "../assembly/buffer-pool.ts";
import { TurnBatch } from "../http2/turn-batch.ts";
import { NetworkCounts } from "../internal/counts/network-counts.ts";
import { RefusalCounts } from "../internal/counts/refusal-counts.ts";
import { RequestRates } from "../internal/counts/request-rates.ts";
import { StreamCounts } from "../internal/counts/stream-counts.ts";
import { ThreadShare } from "../internal/turns/thread-share.ts";
import { BufferedBytes } from "../limits/buffered-bytes.ts";
import type { ListenLimits } from "../limits/listen-limits.ts";
import { ConnectionGate } from "./connections/connection-gate.ts";
import { ConnectionWindows } from "./connections/connection-windows.ts";
import { NetworkFloods } from "./connections/network-floods.ts";
import type { FloodingConnection } from "./connections/server-connections.ts";
import { StreamTurns } from "./connections/stream-turns.ts";
import { RefusedRequests } from "./requests/refused-requests.ts";

/** Maximum size of the unused buffers that a listener keeps for large messages: enough for forty messages of 214 KB. */
const pooledBytes = 8 * 1024 * 1024;

/**
 * Maximum number of calls that start in a turn of the event loop. Connect takes a fifth of a millisecond for each call,
 * most of it after the start. If hundreds of calls started at once, all streams would wait for them.
 */
const callsPerTurn = 16;

/** State that the ports of a listener share, so that its limits apply to all ports together. */
export interface SharedState {
  readonly refusals: RefusalCounts;
  readonly buffered: BufferedBytes;
  readonly rates: RequestRates;
  readonly byNetwork: NetworkCounts;
  readonly windows: ConnectionWindows;
  readonly turns: StreamTurns;
  /** Delivers the small requests of a turn together. */
  readonly batch: TurnBatch;
  /** Shares the thread among the checks of large requests. */
  readonly checks: ThreadShare;
  /** Sums the floods of each network; undefined if floods are not limited. */
  readonly floods: NetworkFloods<FloodingConnection> | undefined;
  readonly refusedRequests: RefusedRequests;
  readonly calls: SharedCalls;
  readonly pool: BufferPool;
  readonly gate: ConnectionGate;
  /** Number of open sockets. */
  sockets: number;
  /** True once the listener closes. It then opens no further port. */
  isClosing: boolean;
}

/** Counts of the calls of routes. */
export interface SharedCalls {
  /** Starts a few calls in each turn of the event loop. */
  readonly share: ThreadShare;
  /** Unary calls have a count of their own, so that a health check is answered even if watches use up `maxStreams`. */
  readonly unary: StreamCounts;
  readonly streaming: StreamCounts;
}

/** @param given The account of undelivered bytes, if the listener shares that of its caller. */
export function shareState(limits: ListenLimits, given: BufferedBytes | undefined): SharedState {
  const refusals = new RefusalCounts();
  const buffered = given ?? new BufferedBytes(limits, refusals);
  const turns = new StreamTurns((network) => gate.startWaiting(network));
  const gate = new ConnectionGate({ ...limits, buffered, refusals, turns });
  const sumsNetworks = limits.maxFloodsPerAddress > 0;
  return {
    refusals,
    buffered,
    rates: new RequestRates(limits.maxRequestsPerSecond, { refusals }),
    byNetwork: new NetworkCounts(),
    windows: new ConnectionWindows(),
    turns,
    batch: new TurnBatch(),
    checks: new ThreadShare(),
    floods: sumsNetworks ? new NetworkFloods() : undefined,
    refusedRequests: new RefusedRequests(sumsNetworks),
    calls: {
      share: new ThreadShare(undefined, callsPerTurn),
      unary: new StreamCounts("calls", limits, refusals),
      streaming: new StreamCounts("calls", limits, refusals),
    },
    pool: createBufferPool(pooledBytes),
    gate,
    sockets: 0,
    isClosing: false,
  };
}
