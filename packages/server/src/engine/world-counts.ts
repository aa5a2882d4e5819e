// SPDX-License-Identifier: Apache-2.0

/**
 * Counts of a world. They only grow. With `perAgent`, they are sums over the worlds of all agents,
 * including agents that left.
 */
export interface WorldCounts {
  readonly ticks: number;
  readonly steps: number;
  /** Ends of sequences, counted for each agent, and the sum of the agents' returns in them. */
  readonly returns: number;
  readonly returnSum: number;
  readonly missedDeadlines: number;
  readonly missedTicks: number;
  /** Sum of the times by which ticks of a schedule were late. */
  readonly tickLagMs: number;
  /** Grows with every change that a spectator can see. */
  readonly changes: number;
}

/** The counts of a world in which nothing has happened. */
export const noCounts: WorldCounts = {
  ticks: 0,
  steps: 0,
  returns: 0,
  returnSum: 0,
  missedDeadlines: 0,
  missedTicks: 0,
  tickLagMs: 0,
  changes: 0,
};

/**
 * Returns the sums of the counts of two worlds. The addition is itself a change, so `changes` is the
 * sum plus 1.
 */
export function addCounts(a: WorldCounts, b: WorldCounts): WorldCounts {
  return {
    ticks: a.ticks + b.ticks,
    steps: a.steps + b.steps,
    returns: a.returns + b.returns,
    returnSum: a.returnSum + b.returnSum,
    missedDeadlines: a.missedDeadlines + b.missedDeadlines,
    missedTicks: a.missedTicks + b.missedTicks,
    tickLagMs: a.tickLagMs + b.tickLagMs,
    changes: a.changes + b.changes + 1,
  };
}
