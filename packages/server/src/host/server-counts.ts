// SPDX-License-Identifier: Apache-2.0

/** Counts of the worlds of one type. `worlds` and `agents` are current; the others only grow. */
export interface WorldTypeCounts {
  /** Name of the worlds' definition. */
  readonly type: string;
  readonly worlds: number;
  readonly agents: number;
  readonly created: number;
  /** Worlds that failed; with `perAgent`, the worlds of single agents. */
  readonly failed: number;
  readonly joins: number;
  /** Sequences that have begun; with `perAgent`, summed over all agents. */
  readonly sequences: number;
  readonly ticks: number;
  readonly steps: number;
  readonly missedDeadlines: number;
  /** Ticks of real-time worlds that were skipped. */
  readonly missedTicks: number;
  /** Sum of the times by which ticks of real-time worlds were late. */
  readonly tickLagMs: number;
}

/** Counts of an environment server since it started. */
export interface EnvironmentServerCounts {
  /** Open streams. */
  readonly streams: number;
  /** The worlds of each type, including worlds that are gone. */
  readonly types: readonly WorldTypeCounts[];
  /**
   * Number of connections, streams, calls and requests that a limit refused or ended, by the name
   * of the limit. Limits on single requests and on worlds do not count.
   */
  readonly refusals: ReadonlyMap<string, number>;
}

/** Counts of a server on the network since it started. */
export interface ServerCounts extends EnvironmentServerCounts {
  /** Open connections, including HTTP/1.1. */
  readonly connections: number;
  /** Undelivered bytes of all streams and calls, which `maxBufferedBytes` limits. */
  readonly bufferedBytes: number;
}
