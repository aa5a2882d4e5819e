// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { WaitOptions } from "../stream/wait.ts";
import type { Environment, ResetOptions } from "./environment.ts";
import type { AgentState, TimeStep } from "./time-step.ts";

/** The `info` of Gymnasium. */
export interface GymnasiumInfo {
  readonly state: AgentState;
  /** Discount of the next step; 1 after a reset. */
  readonly discount: number;
}

/** Result of Gymnasium's `step`. */
export interface GymnasiumStep<Observation> {
  readonly observation: Observation;
  readonly reward: number;
  /** True if the task came to its natural end. */
  readonly terminated: boolean;
  /** True if the sequence was interrupted. */
  readonly truncated: boolean;
  readonly info: GymnasiumInfo;
}

/** An environment with Gymnasium's interface. */
export interface GymnasiumEnvironment<Action, Observation> extends AsyncDisposable {
  /** Begins a sequence; required before the first step and after the end of each sequence. */
  reset(
    options?: ResetOptions,
  ): Promise<{ readonly observation: Observation; readonly info: GymnasiumInfo }>;
  /** @throws DmEnvRpcError FAILED_PRECONDITION before a reset, and after the end of a sequence. */
  step(action: Action, options?: WaitOptions): Promise<GymnasiumStep<Observation>>;
  /** Leaves the world, as `Environment.close` does. */
  close(options?: WaitOptions): Promise<void>;
}

/**
 * Wraps an environment in Gymnasium's interface. A sequence ends as `terminated`, or as `truncated`
 * if its last time step is `interrupted`. A caller that cuts a sequence short must mark it as
 * truncated itself, for example in a copy of the result.
 *
 * @example
 * const env = gymnasium(environment);
 * const { observation, info } = await env.reset({ settings: { seed: 7n } });
 */
export function gymnasium<Action, Observation>(
  environment: Environment<Action, Observation>,
): GymnasiumEnvironment<Action, Observation> {
  let needsReset = true;
  const infoOf = ({ state, discount }: TimeStep<Observation>): GymnasiumInfo => ({
    state,
    discount: discount ?? 1,
  });
  return {
    reset: async (options) => {
      const step = await environment.reset(options);
      needsReset = false;
      return { observation: step.observation, info: infoOf(step) };
    },
    step: async (action, options) => {
      if (needsReset) {
        throw new DmEnvRpcError(
          "FAILED_PRECONDITION",
          "expected a reset before this step, because no sequence is running; call reset() first",
          { origin: "client" },
        );
      }
      const step = await environment.step(action, options);
      const ended = step.last();
      needsReset = ended;
      const terminated = ended && step.state === "terminated";
      return {
        observation: step.observation,
        reward: step.reward ?? 0,
        terminated,
        truncated: ended && !terminated,
        info: infoOf(step),
      };
    },
    close: (options) => environment.close(options),
    [Symbol.asyncDispose]: () => environment.close(),
  };
}
