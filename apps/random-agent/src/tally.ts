// SPDX-License-Identifier: Apache-2.0
import type { TimeStep } from "@dm-env-rpc/client";

/** What an agent has done so far. */
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

/** What agents have played. */
export interface Played {
  readonly seed: bigint;
  readonly agents: readonly AgentTally[];
  /** Of all agents together. */
  readonly steps: number;
  readonly sequences: number;
  readonly meanReturn: number | null;
  /** From the first step to the last, the search for matches included. */
  readonly seconds: number;
  readonly stepsPerSecond: number;
  /** Whether it was ended before every agent had made its steps. */
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

/** Adds up what all agents have done. */
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

/** Sums up what was played in so many seconds. */
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
