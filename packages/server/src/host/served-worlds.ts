// SPDX-License-Identifier: Apache-2.0

/** A world that a server has. */
export interface ServedWorld {
  readonly name: string;
  /** The name of its definition. */
  readonly type: string;
  /** Agents that are in it. */
  readonly agents: number;
  /** Agents that have ever joined. */
  readonly joins: number;
  /** Sequences that have begun; of worlds with `perAgent`, those of all agents. */
  readonly sequences: number;
  /** Whether the server came with it. */
  readonly premade: boolean;
}
