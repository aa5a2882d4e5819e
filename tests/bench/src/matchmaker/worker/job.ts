// SPDX-License-Identifier: Apache-2.0

/** A measurement of a matchmaker. */
export interface Job {
  /**
   * - `assign`: waiting tickets are assigned once the servers register.
   * - `arrive`: tickets arrive while servers are registered, as fast as possible or at `perSecond`.
   * - `wait`: waiting tickets that match nothing, with arrivals and cancels at `perSecond`.
   * - `restart`: another matchmaker starts on the store of waiting tickets.
   * - `watch`: waiting tickets, each watched over the network, are assigned.
   */
  readonly kind: "assign" | "arrive" | "wait" | "restart" | "watch";
  /** Address of a Redis; undefined for a store in memory. */
  readonly redis: string | undefined;
  readonly tickets: number;
  readonly servers: number;
  /** Tickets that arrive each second; undefined for as many as possible. */
  readonly perSecond?: number | undefined;
}

/** Figures of one measurement; those that its kind does not have are undefined. */
export interface Figures {
  readonly ticketsPerSecond?: number | undefined;
  /** CPU time of the process for each ticket, in microseconds. */
  readonly cpuMicros?: number | undefined;
  /** Waiting time of the tickets. */
  readonly p50Ms?: number | undefined;
  readonly p99Ms?: number | undefined;
  /** The 50th percentile of the ticks, and the longest. */
  readonly tickMs?: number | undefined;
  readonly largestTickMs?: number | undefined;
  /** 99th percentile of GetTicket, called at a fixed rate. */
  readonly getP99Ms?: number | undefined;
  /** Longest CPU time without a turn of the event loop. */
  readonly heldMs?: number | undefined;
  /** Share of a core that the process takes. */
  readonly busy?: number | undefined;
  /** Time until everything is done: the restart, or the last watcher's update. */
  readonly doneMs?: number | undefined;
  /** Greatest resident memory of the process. */
  readonly peakMb?: number | undefined;
  /** Memory that Redis uses at the end. */
  readonly redisMb?: number | undefined;
}
