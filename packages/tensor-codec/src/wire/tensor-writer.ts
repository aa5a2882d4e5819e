// SPDX-License-Identifier: Apache-2.0
import { dtypes } from "../dtype.ts";
import type { PackedTensor, UnsetTensor } from "../tensor.ts";
import { arraySize, begin, delimitedSize, writeArray } from "./array-writer.ts";
import type { Sizes } from "./sizes.ts";
import { int32Size, writeInt32 } from "./varints.ts";
import { LENGTH_DELIMITED, SHAPE_FIELD } from "./wire-type.ts";

const SHAPE = (SHAPE_FIELD << 3) | LENGTH_DELIMITED;

/** The bytes of a Tensor; keeps in `sizes` what `writeTensor` asks for. */
export function tensorSize(tensor: PackedTensor | UnsetTensor, sizes: Sizes): number {
  const { shape } = tensor;
  const shapeBytes = shape.length === 0 ? 0 : delimitedSize(shapeSize(shape));
  if (tensor.dtype === "unset") return shapeBytes;
  const place = sizes.reserve();
  return delimitedSize(sizes.put(place, arraySize(tensor, sizes))) + shapeBytes;
}

/** Writes a Tensor, its payload first; returns the position behind it. */
export function writeTensor(
  tensor: PackedTensor | UnsetTensor,
  sizes: Sizes,
  target: Uint8Array,
  pos: number,
): number {
  const { shape } = tensor;
  if (tensor.dtype !== "unset") {
    const tag = (dtypes[tensor.dtype].dataType << 3) | LENGTH_DELIMITED;
    pos = writeArray(tensor, sizes, target, begin(tag, sizes.take(), target, pos));
  }
  if (shape.length > 0) {
    pos = begin(SHAPE, shapeSize(shape), target, pos);
    for (let i = 0; i < shape.length; i++) pos = writeInt32(shape[i] as number, target, pos);
  }
  return pos;
}

function shapeSize(shape: readonly number[]): number {
  let size = 0;
  for (let i = 0; i < shape.length; i++) size += int32Size(shape[i] as number);
  return size;
}
