// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError, TensorError } from "@dm-env-rpc/tensor-codec";

/** The error that `step` throws to refuse its actions, created by `refuse`. */
export class StepRefusal extends Error {
  override readonly name = "StepRefusal";
  /** The error that the agent receives. */
  override readonly cause: DmEnvRpcError | TensorError;

  constructor(cause: DmEnvRpcError | TensorError) {
    super(cause.message, { cause });
    this.cause = cause;
  }
}

/**
 * Creates the error with which `step` refuses the actions of the only agent that acts in a tick, as
 * in an environment or on the clock `turns`. Throwing it declares that nothing has changed. The
 * agent receives `error` and may step again; its deadline keeps running. If a missed deadline
 * repeated the actions, `step` is called again without them. Any other error that `step` throws
 * ends the world; so does a refusal on the clocks `realtime` and `wakeUp`.
 *
 * @example
 * function step({ field = 0 }: { field?: number }) {
 *   if (!board.isFree(field)) {
 *     throw refuse(new DmEnvRpcError("INVALID_ARGUMENT", `field ${field} is taken; take a free one`));
 *   }
 *   // …
 * }
 */
export function refuse(error: DmEnvRpcError | TensorError): StepRefusal {
  return new StepRefusal(error);
}

/** Returns true for a StepRefusal, from this copy of the package or another copy. */
export function isStepRefusal(error: unknown): error is StepRefusal {
  return error instanceof Error && error.name === "StepRefusal";
}
