// SPDX-License-Identifier: Apache-2.0

import type { WaitOptions } from "../stream/wait.ts";
import type { Environment } from "./environment.ts";
import type { TimeStep } from "./time-step.ts";

/**
 * Chooses an action for a time step. It is also called with last steps, as in dm_env's run loops; the
 * action for a last step is ignored.
 */
export type Policy<Action, Observation> = (step: TimeStep<Observation>) => Action | Promise<Action>;

/** Bounds of a run. Without `sequences` and `steps`, it continues until the caller leaves the loop. */
export interface RunOptions extends WaitOptions {
  /** Ends after this many last steps. */
  readonly sequences?: number | undefined;
  /** Ends after this many time steps, including first steps. */
  readonly steps?: number | undefined;
}

/**
 * Runs a policy in an environment and yields every time step: dm_env's run loop as an iterator.
 * Begins with a reset.
 *
 * It never steps ahead of the caller's loop. When `break` or an error ends that loop, no request is
 * open, and the environment is at the last yielded step. `timeoutMs` applies to each step.
 */
export async function* run<Action, Observation>(
  environment: Pick<Environment<Action, Observation>, "reset" | "step">,
  policy: Policy<Action, Observation>,
  options: RunOptions = {},
): AsyncGenerator<TimeStep<Observation>, void, void> {
  const {
    sequences = Number.POSITIVE_INFINITY,
    steps = Number.POSITIVE_INFINITY,
    ...wait
  } = options;
  if (sequences <= 0 || steps <= 0) {
    return;
  }
  let ended = 0;
  let step = await environment.reset(wait);
  for (let taken = 1; ; taken++) {
    yield step;
    const action = await policy(step);
    if (step.last()) {
      ended++;
    }
    if (ended >= sequences || taken >= steps) {
      return;
    }
    step = await environment.step(action, wait);
  }
}
