// SPDX-License-Identifier: Apache-2.0

/** A world of a server. */
export interface ServedWorld {
  readonly name: string;
  /** Name of the world's definition. */
  readonly type: string;
  /** Number of agents in the world. */
  readonly agents: number;
  /** Number of agents that have joined so far. */
  readonly joins: number;
  /** Number of sequences that have begun; with `perAgent`, summed over all agents. */
  readonly sequences: number;
  /** True if the world has existed from the start. */
  readonly premade: boolean;
}
