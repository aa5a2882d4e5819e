// SPDX-License-Identifier: Apache-2.0
import type { PackedTensor, UnsetTensor } from "../src/tensors/tensor.ts";

/** Converts a tensor so that `toEqual` compares bits: -0 differs from 0, and NaNs by their payload. */
export function bitsOf(tensor: PackedTensor | UnsetTensor): unknown {
  const { dtype, shape, data } = tensor;
  if (!ArrayBuffer.isView(data)) {
    return { dtype, shape: [...shape], data: [...data] };
  }
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { dtype, shape: [...shape], data: Buffer.from(bytes).toString("hex") };
}

/** Converts a tensor in the same way, but with equal NaNs, as in an array of numbers. */
export function valuesOf(tensor: PackedTensor | UnsetTensor): unknown {
  const { dtype, shape, data } = tensor;
  return {
    dtype,
    shape: [...shape],
    data: Array.from<unknown>(data).map((value) => (Object.is(value, -0) ? "-0" : value)),
  };
}
