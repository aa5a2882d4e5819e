// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";

/** Position of a time step in its sequence (dm_env, "Overview"). */
export type StepType = "first" | "mid" | "last";

/**
 * The agent's state as the server reports it: `interrupted` ends the sequence although the task has
 * not ended.
 */
export type AgentState = "running" | "terminated" | "interrupted";

/**
 * Result of a step (dm_env, "Overview").
 *
 * A plain record with three predicates. They also work on a copy with another step type, such as
 * `{ ...step, stepType: "last" }` (manual truncation).
 */
export interface TimeStep<Observation> {
  readonly stepType: StepType;
  /**
   * State of the sequence: distinguishes a `last` step that terminated from one that was
   * interrupted.
   */
  readonly state: AgentState;
  /**
   * Reward since the previous step; null on `first`. Default, without a reward observation and
   * without a function that computes it: 0.
   */
  readonly reward: number | null;
  /**
   * Discount of the next step; null on `first`. Default, without a discount observation and
   * without a function that computes it: 0 on `terminated` and 1 otherwise. It does not indicate the
   * end of a sequence.
   */
  readonly discount: number | null;
  /** Observations by name. Tensors are views of the received bytes unless `tensors` is `copy`. */
  readonly observation: Observation;
  /** True if this step begins a sequence. */
  first(this: Pick<TimeStep<unknown>, "stepType">): boolean;
  /** True if this step is within a sequence. */
  mid(this: Pick<TimeStep<unknown>, "stepType">): boolean;
  /** True if this step ends a sequence; the next step begins another and ignores its action. */
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

/** Creates a time step, as environments do; for custom environments and for tests. */
export function timeStep<Observation>(
  stepType: StepType,
  state: AgentState,
  reward: number | null,
  discount: number | null,
  observation: Observation,
): TimeStep<Observation> {
  return { stepType, state, reward, discount, observation, first, mid, last };
}

/** Returns the state of a StepResponse; undefined for an unknown state. */
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

/**
 * Returns the step type for a transition between two states; undefined for an illegal transition
 * (behaviour 5).
 */
export function stepTypeOf(before: AgentState, now: AgentState): StepType | undefined {
  if (now === "running") {
    return before === "running" ? "mid" : "first";
  }
  return before === "running" ? "last" : undefined;
}
