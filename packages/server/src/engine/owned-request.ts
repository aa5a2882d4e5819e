// SPDX-License-Identifier: Apache-2.0
import { ownScalars, type StepRequest } from "@dm-env-rpc/tensor-codec/wire";

/** Copies the borrowed scalars of a step so that it can be queued. */
export function ownedStep({ actions, requestedObservations }: StepRequest): StepRequest {
  return { actions: ownScalars(actions), requestedObservations };
}
