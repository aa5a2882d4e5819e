// SPDX-License-Identifier: Apache-2.0
import type { PackedTensor } from "@dm-env-rpc/tensor-codec";

/** Returns the tensor with a copy of its data. */
export function copied<T extends PackedTensor>(tensor: T): T {
  return { ...tensor, data: tensor.data.slice() };
}
