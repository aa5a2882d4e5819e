// SPDX-License-Identifier: Apache-2.0

/** A world of a server. */
export interface ServedWorld {
  readonly name: string;
  /** The name of its definition. */
  readonly type: string;
  /** Number of agents in it. */
  readonly agents: number;
  /** Number of agents that ever joined. */
  readonly joins: number;
  /** Number of sequences that began; of worlds with `perAgent`, those of all agents. */
  readonly sequences: number;
  /** True if it existed from the start. */
  readonly premade: boolean;
}
