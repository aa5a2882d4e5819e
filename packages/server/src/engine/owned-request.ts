// SPDX-License-Identifier: Apache-2.0
import {
  type Malformed,
  ownScalars,
  type ProcessRequest,
  type StepRequest,
} from "@dm-env-rpc/tensor-codec/wire";

/** Copies the borrowed scalars of a request so that it can be queued. */
export function owned(request: ProcessRequest | Malformed): ProcessRequest | Malformed {
  return request.case === "step" ? { case: "step", value: ownedStep(request.value) } : request;
}

/** Copies the borrowed scalars of a step so that it can be queued. */
export function ownedStep({ actions, requestedObservations }: StepRequest): StepRequest {
  return { actions: ownScalars(actions), requestedObservations };
}
