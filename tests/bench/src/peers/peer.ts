// SPDX-License-Identifier: Apache-2.0
import type { Histogram } from "../harness/histogram.ts";
import type { Load } from "../loads/load.ts";

/** One stack to compare: serves a load and plays it. */
export interface Peer {
  /**
   * Serves a load; undefined if the peer has no network.
   *
   * @param relay Address of a relay, for a peer that dials out to one.
   */
  serve?(load: Load, relay?: string): Promise<Served>;
  /** Opens one connection with one stream, ready to step with up to `inFlight` steps at a time. */
  connect(load: Load, port: number, inFlight: number): Promise<Agent>;
}

/** A running server. */
export interface Served {
  readonly port: number;
  close(): Promise<void>;
}

/** One turn at playing. */
export interface Turn {
  /** Steps that are kept in flight. */
  readonly inFlight: number;
  /** Time to stop, on the clock of `performance.now()`. */
  readonly until: number;
  /** Receives microseconds of steps: of each step, if one is in flight at a time. */
  readonly latencies: Histogram;
}

/** One connection that steps. */
export interface Agent {
  /** Plays until the turn is over; resolves with the number of responses, all of them checked. */
  play(turn: Turn): Promise<number>;
  close(): Promise<void>;
}

/** The action of a tick, the same for all contenders. */
export const moveAt = (tick: number): number => tick % 3;
