// SPDX-License-Identifier: Apache-2.0
import type { PackedTensor, UnsetTensor } from "../src/tensors/tensor.ts";

/** A tensor in a form in which `toEqual` compares bits: -0 is not 0, and NaNs differ. */
export function bitsOf(tensor: PackedTensor | UnsetTensor): unknown {
  const { dtype, shape, data } = tensor;
  if (!ArrayBuffer.isView(data)) {
    return { dtype, shape: [...shape], data: [...data] };
  }
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  return { dtype, shape: [...shape], data: Buffer.from(bytes).toString("hex") };
}

/** The same with every NaN alike: what is left of them in an array of numbers. */
export function valuesOf(tensor: PackedTensor | UnsetTensor): unknown {
  const { dtype, shape, data } = tensor;
  return {
    dtype,
    shape: [...shape],
    data: Array.from<unknown>(data).map((value) => (Object.is(value, -0) ? "-0" : value)),
  };
}
