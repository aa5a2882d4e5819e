// SPDX-License-Identifier: Apache-2.0
import type { Tensor } from "@dm-env-rpc/tensor-codec";

/** The same tensor in memory of its own. */
export function copied(tensor: Tensor): Tensor {
  return { ...tensor, data: tensor.data.slice() } as Tensor;
}
