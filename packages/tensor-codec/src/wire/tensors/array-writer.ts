// SPDX-License-Identifier: Apache-2.0

import type { PackedTensor } from "../../tensors/tensor.ts";
import { elementsSize } from "../encodings/encoding.ts";
import type { EncodedType } from "../encodings/table.ts";
import { begin, delimitedSize } from "../primitives/delimited.ts";
import type { Sizes } from "../primitives/sizes.ts";
import { arrayTag } from "../primitives/wire-type.ts";

/**
 * Measures a tensor's `Tensor.*Array`, and records in `sizes` the lengths that `writeArray` reads.
 *
 * @throws TensorError `value` for a string that has no UTF-8 encoding.
 */
export function arraySize({ encoding }: EncodedType, tensor: PackedTensor, sizes: Sizes): number {
  if (tensor.data.length === 0) {
    return 0;
  }
  if (!encoding.packed) {
    return encoding.size(tensor, sizes);
  }
  return delimitedSize(sizes.record(elementsSize(encoding, tensor.data)));
}

/** Writes a tensor's `Tensor.*Array`; returns the position after it. */
export function writeArray(
  { encoding }: EncodedType,
  { data }: PackedTensor,
  sizes: Sizes,
  target: Uint8Array,
  pos: number,
): number {
  if (data.length === 0) {
    return pos;
  }
  if (!encoding.packed) {
    return encoding.write(data, sizes, target, pos);
  }
  const size = sizes.take();
  return encoding.write(data, size, target, begin(arrayTag, size, target, pos));
}
