// SPDX-License-Identifier: Apache-2.0
import {
  type Malformed,
  ownScalars,
  type ProcessRequest,
  type StepRequest,
} from "@dm-env-rpc/tensor-codec/wire";

/** A request that may wait while others are read: its scalars are not lent any more. */
export function kept(request: ProcessRequest | Malformed): ProcessRequest | Malformed {
  return request.case === "step" ? { case: "step", value: keptStep(request.value) } : request;
}

/** A step that may wait while others are read. */
export function keptStep({ actions, requestedObservations }: StepRequest): StepRequest {
  return { actions: ownScalars(actions), requestedObservations };
}
