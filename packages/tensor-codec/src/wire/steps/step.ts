// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentStateType } from "@dm-env-rpc/protocol";
import type { PackedTensor, UnsetTensor } from "../../tensors/tensor.ts";
import type { Uid } from "../primitives/uid.ts";

/** One entry of a `map<uint64, Tensor>`. */
export interface UidTensor {
  readonly uid: Uid;
  /** Packed; `unset` if the entry has no payload, which `unpackFor` refuses. */
  readonly tensor: PackedTensor | UnsetTensor;
}

/** A StepRequest. For a duplicate UID, only the last tensor is present. */
export interface StepRequest {
  readonly actions: readonly UidTensor[];
  /** In wire order, including repeated UIDs. */
  readonly requestedObservations: readonly Uid[];
}

/** A StepResponse. For a duplicate UID, only the last tensor is present. */
export interface StepResponse {
  readonly state: EnvironmentStateType;
  readonly observations: readonly UidTensor[];
}
