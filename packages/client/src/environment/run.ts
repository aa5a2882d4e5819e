// SPDX-License-Identifier: Apache-2.0

import type { WaitOptions } from "../stream/wait.ts";
import type { Environment } from "./environment.ts";
import type { TimeStep } from "./time-step.ts";

/**
 * Chooses an action for a time step; asked on last steps too, as dm_env's agents are, where its action
 * is ignored.
 */
export type Policy<Action, Observation> = (step: TimeStep<Observation>) => Action | Promise<Action>;

/** How long to run; without `sequences` and `steps`, until the loop is left. */
export interface RunOptions extends WaitOptions {
  /** Ends after as many last steps. */
  readonly sequences?: number | undefined;
  /** Ends after as many time steps, first steps included. */
  readonly steps?: number | undefined;
}

/**
 * Runs a policy in an environment and yields every time step: dm_env's run loop as an
 * iteration. Begins with a reset.
 *
 * Nothing is ahead of the loop: a step is taken when the loop asks for it. When it is left, by `break` or
 * by an error, no request is open, and the environment is as it was at the step that came last.
 * `timeoutMs` is for each step.
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
