// SPDX-License-Identifier: Apache-2.0

import type { PackedTensor, UnsetTensor } from "../../tensors/tensor.ts";
import { encodedTypes } from "../encodings/table.ts";
import { begin, delimitedSize } from "../primitives/delimited.ts";
import type { Sizes } from "../primitives/sizes.ts";
import { int32Size, writeInt32 } from "../primitives/varints.ts";
import { lengthDelimitedType, shapeField } from "../primitives/wire-type.ts";
import { arraySize, writeArray } from "./array-writer.ts";

const shapeTag = (shapeField << 3) | lengthDelimitedType;

/** Measures a Tensor, and records in `sizes` the lengths that `writeTensor` reads. */
export function tensorSize(tensor: PackedTensor | UnsetTensor, sizes: Sizes): number {
  const { shape } = tensor;
  const shapeBytes = shape.length === 0 ? 0 : delimitedSize(shapeSize(shape));
  if (tensor.dtype === "unset") {
    return shapeBytes;
  }
  const place = sizes.reserve();
  return (
    delimitedSize(sizes.put(place, arraySize(encodedTypes[tensor.dtype], tensor, sizes))) +
    shapeBytes
  );
}

/** Writes a Tensor, its payload first; returns the position after it. */
export function writeTensor(
  tensor: PackedTensor | UnsetTensor,
  sizes: Sizes,
  target: Uint8Array,
  pos: number,
): number {
  const { shape } = tensor;
  if (tensor.dtype !== "unset") {
    const type = encodedTypes[tensor.dtype];
    const tag = (type.field << 3) | lengthDelimitedType;
    pos = writeArray(type, tensor, sizes, target, begin(tag, sizes.take(), target, pos));
  }
  if (shape.length > 0) {
    pos = begin(shapeTag, shapeSize(shape), target, pos);
    for (let i = 0; i < shape.length; i++) {
      pos = writeInt32(shape[i] as number, target, pos);
    }
  }
  return pos;
}

function shapeSize(shape: readonly number[]): number {
  let size = 0;
  for (let i = 0; i < shape.length; i++) {
    size += int32Size(shape[i] as number);
  }
  return size;
}
