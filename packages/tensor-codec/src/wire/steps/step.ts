// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentStateType } from "@dm-env-rpc/protocol";
import type { PackedTensor, UnsetTensor } from "../../tensors/tensor.ts";
import type { Uid } from "../primitives/uid.ts";

/** One entry of a `map<uint64, Tensor>`. */
export interface UidTensor {
  readonly uid: Uid;
  /** As it came; `unset` when the entry had no payload, which `unpackFor` refuses. */
  readonly tensor: PackedTensor | UnsetTensor;
}

/** A StepRequest; of a UID that came twice only the last tensor is there. */
export interface StepRequest {
  readonly actions: readonly UidTensor[];
  /** As they came: repeated UIDs stay repeated. */
  readonly requestedObservations: readonly Uid[];
}

/** A StepResponse; of a UID that came twice only the last tensor is there. */
export interface StepResponse {
  readonly state: EnvironmentStateType;
  readonly observations: readonly UidTensor[];
}
