// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { WaitOptions } from "../stream/wait.ts";
import type { Environment, ResetOptions } from "./environment.ts";
import type { AgentState, TimeStep } from "./time-step.ts";

/** What Gymnasium calls `info`. */
export interface GymnasiumInfo {
  readonly state: AgentState;
  /** The discount of what follows; 1 after a reset. */
  readonly discount: number;
}

/** What Gymnasium's `step` returns. */
export interface GymnasiumStep<Observation> {
  readonly observation: Observation;
  readonly reward: number;
  /** The task came to its natural end. */
  readonly terminated: boolean;
  /** The sequence was interrupted. */
  readonly truncated: boolean;
  readonly info: GymnasiumInfo;
}

/** An environment in Gymnasium's shape. */
export interface GymnasiumEnvironment<Action, Observation> extends AsyncDisposable {
  /** Begins a sequence; needed at first and after each end. */
  reset(
    options?: ResetOptions,
  ): Promise<{ readonly observation: Observation; readonly info: GymnasiumInfo }>;
  /** @throws DmEnvRpcError FAILED_PRECONDITION before a reset, and after the end of a sequence. */
  step(action: Action, options?: WaitOptions): Promise<GymnasiumStep<Observation>>;
  /** Leaves the world, as `Environment.close` does. */
  close(options?: WaitOptions): Promise<void>;
}

/**
 * Gives an environment Gymnasium's shape: ends are `terminated` or, where dm_env says interrupted,
 * `truncated`. A sequence that is cut short by hand with a copied time step is the caller's to tell.
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
          "expected a reset before this step, for no sequence is running; call reset() first",
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
