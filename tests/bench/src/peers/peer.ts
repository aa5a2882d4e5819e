// SPDX-License-Identifier: Apache-2.0
import type { Histogram } from "../harness/histogram.ts";
import type { Load } from "../loads/load.ts";

/** One way to serve a load and to play it: a stack to be compared. */
export interface Peer {
  /** Serves; absent where there is no network. */
  serve?(load: Load): Promise<Served>;
  /** Opens one connection with one stream, ready to step with up to `inFlight` steps at a time. */
  connect(load: Load, port: number, inFlight: number): Promise<Agent>;
}

/** A server that runs. */
export interface Served {
  readonly port: number;
  close(): Promise<void>;
}

/** One turn at playing. */
export interface Turn {
  /** Steps that are kept in flight. */
  readonly inFlight: number;
  /** When to stop, as `performance.now()` tells time. */
  readonly until: number;
  /** Takes microseconds of steps: of each, where one is in flight at a time. */
  readonly latencies: Histogram;
}

/** One connection that steps. */
export interface Agent {
  /** Plays until the turn is over; resolves to the number of steps that were answered, each of them checked. */
  play(turn: Turn): Promise<number>;
  close(): Promise<void>;
}

/** The action of a tick, the same for everybody. */
export const moveAt = (tick: number): number => tick % 3;
