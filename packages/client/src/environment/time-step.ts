// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";

/** Where in its sequence a time step stands (dm_env, "Overview"). */
export type StepType = "first" | "mid" | "last";

/** What the server said of the agent's state: `interrupted` is an end that is no end of the task. */
export type AgentState = "running" | "terminated" | "interrupted";

/**
 * What an environment answers to a step (dm_env, "Overview").
 *
 * A plain record with its three questions as functions: a copy with another step
 * type, `{ ...step, stepType: "last" }`, answers for itself (manual truncation).
 */
export interface TimeStep<Observation> {
  readonly stepType: StepType;
  /** The state behind the step type: tells a `last` that terminated from one that was interrupted. */
  readonly state: AgentState;
  /** Reward since the step before; null on `first`. Without a reward observation 0. */
  readonly reward: number | null;
  /**
   * Discount of what follows; null on `first`. Without a discount observation 0 on
   * `terminated`, else 1. It does not tell when a sequence ends.
   */
  readonly discount: number | null;
  /** What was observed, by name. Tensors are views of the received bytes. */
  readonly observation: Observation;
  /** Whether this step begins a sequence. */
  first(this: Pick<TimeStep<unknown>, "stepType">): boolean;
  /** Whether this step is within a sequence. */
  mid(this: Pick<TimeStep<unknown>, "stepType">): boolean;
  /** Whether this step ends a sequence; the next step begins another and ignores its action. */
  last(this: Pick<TimeStep<unknown>, "stepType">): boolean;
}

function first(this: Pick<TimeStep<unknown>, "stepType">): boolean {
  return this.stepType === "first";
}

function mid(this: Pick<TimeStep<unknown>, "stepType">): boolean {
  return this.stepType === "mid";
}

function last(this: Pick<TimeStep<unknown>, "stepType">): boolean {
  return this.stepType === "last";
}

/**
 * Makes a time step, as an environment does; for environments of one's own and for tests.
 */
export function timeStep<Observation>(
  stepType: StepType,
  state: AgentState,
  reward: number | null,
  discount: number | null,
  observation: Observation,
): TimeStep<Observation> {
  return { stepType, state, reward, discount, observation, first, mid, last };
}

/** The state that a StepResponse says; undefined where it says none. */
export function agentState(state: EnvironmentStateType): AgentState | undefined {
  switch (state) {
    case EnvironmentStateType.RUNNING:
      return "running";
    case EnvironmentStateType.TERMINATED:
      return "terminated";
    case EnvironmentStateType.INTERRUPTED:
      return "interrupted";
    default:
      return undefined;
  }
}

/** The step type of a state that follows another; undefined where it must not (behaviour 5). */
export function stepTypeOf(before: AgentState, now: AgentState): StepType | undefined {
  if (now === "running") {
    return before === "running" ? "mid" : "first";
  }
  return before === "running" ? "last" : undefined;
}
