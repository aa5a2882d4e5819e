// SPDX-License-Identifier: Apache-2.0
import { elementTypes } from "../dtype.ts";
import type { PackedTensor, UnsetTensor } from "../tensor.ts";
import { arraySize, writeArray } from "./array-writer.ts";
import { begin, delimitedSize } from "./delimited.ts";
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
  return (
    delimitedSize(sizes.put(place, arraySize(elementTypes[tensor.dtype], tensor, sizes))) +
    shapeBytes
  );
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
    const type = elementTypes[tensor.dtype];
    const tag = (type.dataType << 3) | LENGTH_DELIMITED;
    pos = writeArray(type, tensor, sizes, target, begin(tag, sizes.take(), target, pos));
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
