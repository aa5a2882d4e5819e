// SPDX-License-Identifier: Apache-2.0
import type { TimeStep } from "@dm-env-rpc/client";

/** Counters of one agent. */
export interface AgentTally {
  /** Number of the agent, from 0. */
  readonly agent: number;
  /** Calls of `step`. */
  readonly steps: number;
  /** Sequences played to their end. */
  readonly sequences: number;
  /** Mean over those sequences of the sum of their rewards; null before the first has ended. */
  readonly meanReturn: number | null;
}

/** Counters of all agents. */
export interface Played {
  readonly seed: bigint;
  readonly agents: readonly AgentTally[];
  /** Number of steps of all agents together. */
  readonly steps: number;
  readonly sequences: number;
  readonly meanReturn: number | null;
  /** Time from the first step to the last, including the search for matches. */
  readonly seconds: number;
  readonly stepsPerSecond: number;
  /** True if the play ended before every agent had made its steps. */
  readonly endedEarly: boolean;
}

/** Counts an agent's steps. */
export class Tally implements AgentTally {
  readonly agent: number;
  steps = 0;
  sequences = 0;
  #returns = 0;
  #reward = 0;

  constructor(agent: number) {
    this.agent = agent;
  }

  get meanReturn(): number | null {
    return this.sequences === 0 ? null : this.#returns / this.sequences;
  }

  add(step: TimeStep<unknown>): void {
    this.steps++;
    if (step.first()) {
      this.#reward = 0;
    }
    this.#reward += step.reward ?? 0;
    if (!step.last()) {
      return;
    }
    this.sequences++;
    this.#returns += this.#reward;
  }

  toJSON(): AgentTally {
    const { agent, steps, sequences, meanReturn } = this;
    return { agent, steps, sequences, meanReturn };
  }
}

/** Adds up the counters of all agents. */
export function total(agents: readonly AgentTally[]): Omit<AgentTally, "agent"> {
  let steps = 0;
  let sequences = 0;
  let returns = 0;
  for (const tally of agents) {
    steps += tally.steps;
    sequences += tally.sequences;
    returns += (tally.meanReturn ?? 0) * tally.sequences;
  }
  return { steps, sequences, meanReturn: sequences === 0 ? null : returns / sequences };
}

/** Makes the result of a play that took the given time. */
export function played(
  tallies: readonly Tally[],
  seed: bigint,
  seconds: number,
  expectedSteps: number,
): Played {
  const totals = total(tallies);
  return {
    seed,
    agents: tallies.map((tally) => tally.toJSON()),
    ...totals,
    seconds,
    stepsPerSecond: totals.steps / seconds,
    endedEarly: totals.steps < expectedSteps,
  };
}
