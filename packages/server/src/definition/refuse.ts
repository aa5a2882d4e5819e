// SPDX-License-Identifier: Apache-2.0
import type { DmEnvRpcError, TensorError } from "@dm-env-rpc/tensor-codec";

/** A world's refusal of the step that it was called with, made by `refuse`. */
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
 * Makes the error with which `step` refuses the actions of the only agent that acts in a tick, as
 * in an environment and on the clocks `turns` and `freeRunning`: it declares that nothing has
 * changed. The agent receives `error` and may step again; its deadline keeps running. If a missed
 * deadline repeated the actions, `step` is called once more, without them. Any other error that
 * `step` throws ends the world.
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

/** True for a StepRefusal, of this copy of the package or of another. */
export function isStepRefusal(error: unknown): error is StepRefusal {
  return error instanceof Error && error.name === "StepRefusal";
}
