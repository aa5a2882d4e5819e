// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import { wrongElement } from "../elements.ts";
import type { PackedTensor } from "../tensor.ts";
import { type FixedArray, writeFixed, writeFloat32, writeFloat64 } from "./fixed.ts";
import type { Sizes } from "./sizes.ts";
import { utf8Length, writeUtf8 } from "./utf8.ts";
import {
  varintSize,
  varints64Size,
  varintsSize,
  writeVarint,
  writeVarints,
  writeVarints64,
} from "./varints.ts";
import { ARRAY_FIELD, LENGTH_DELIMITED } from "./wire-type.ts";

const ARRAY = (ARRAY_FIELD << 3) | LENGTH_DELIMITED;
const TYPE_URL = (1 << 3) | LENGTH_DELIMITED;
const VALUE = (2 << 3) | LENGTH_DELIMITED;

/** Up to this many elements a loop costs less than a call that copies all of them. */
const FEW = 4;

/**
 * The bytes of a tensor's `Tensor.*Array`; keeps in `sizes` what `writeArray` asks for.
 *
 * @throws TensorError `value` for a string that has no UTF-8 encoding.
 */
export function arraySize(tensor: PackedTensor, sizes: Sizes): number {
  if (tensor.data.length === 0) return 0;
  switch (tensor.dtype) {
    case "float32":
      return delimitedSize(tensor.data.length * 4);
    case "float64":
      return delimitedSize(tensor.data.length * 8);
    case "int32":
    case "uint32":
      return delimitedSize(sizes.keep(varintsSize(tensor.data)));
    case "int64":
    case "uint64":
      return delimitedSize(sizes.keep(varints64Size(tensor.data)));
    case "string":
      return stringsSize(tensor, sizes);
    case "proto":
      return anysSize(tensor, sizes);
    default:
      return delimitedSize(tensor.data.length);
  }
}

/** Writes a tensor's `Tensor.*Array`; returns the position behind it. */
export function writeArray(
  tensor: PackedTensor,
  sizes: Sizes,
  target: Uint8Array,
  pos: number,
): number {
  const { length } = tensor.data;
  if (length === 0) return pos;
  switch (tensor.dtype) {
    case "float32":
      return writeFloats(tensor.data, target, begin(ARRAY, length * 4, target, pos), writeFloat32);
    case "float64":
      return writeFloats(tensor.data, target, begin(ARRAY, length * 8, target, pos), writeFloat64);
    case "int32":
    case "uint32": {
      const size = sizes.take();
      return writeVarints(tensor.data, size, target, begin(ARRAY, size, target, pos));
    }
    case "int64":
    case "uint64":
      return writeVarints64(tensor.data, target, begin(ARRAY, sizes.take(), target, pos));
    case "bool":
      return writeBools(tensor.data, target, begin(ARRAY, length, target, pos));
    case "string":
      return writeStrings(tensor.data, sizes, target, pos);
    case "proto":
      return writeAnys(tensor.data, sizes, target, pos);
    default:
      return writeBytes(tensor.data, target, begin(ARRAY, length, target, pos));
  }
}

/** Writes the tag and the length of a field; returns the position behind them. */
export function begin(tag: number, length: number, target: Uint8Array, pos: number): number {
  target[pos] = tag;
  return writeVarint(length, target, pos + 1);
}

/** The bytes of a field of so many bytes, with its length and a tag of one byte. */
export function delimitedSize(length: number): number {
  return 1 + varintSize(length) + length;
}

/** Writes floats, each as it is; returns the position behind them. */
export function writeFloats(
  data: FixedArray,
  target: Uint8Array,
  pos: number,
  writeOne: (value: number, target: Uint8Array, pos: number) => number,
): number {
  if (data.length > FEW) return writeFixed(data, target, pos);
  let at = pos;
  for (let i = 0; i < data.length; i++) {
    const value = data[i] as number;
    // The bits of a NaN do not survive as a number.
    if (Number.isNaN(value)) return writeFixed(data, target, pos);
    at = writeOne(value, target, at);
  }
  return at;
}

/** Writes bytes as they are; returns the position behind them. */
export function writeBytes(data: Int8Array | Uint8Array, target: Uint8Array, pos: number): number {
  if (data.length > FEW) target.set(data, pos);
  else for (let i = 0; i < data.length; i++) target[pos + i] = data[i] as number;
  return pos + data.length;
}

/** Writes bools as zeros and ones; returns the position behind them. */
export function writeBools(data: Uint8Array, target: Uint8Array, pos: number): number {
  let odd = 0;
  for (let i = 0; i < data.length; i++) odd |= data[i] as number;
  if (odd <= 1) return writeBytes(data, target, pos);
  for (let i = 0; i < data.length; i++) target[pos + i] = data[i] === 0 ? 0 : 1;
  return pos + data.length;
}

function stringsSize(tensor: PackedTensor<"string">, sizes: Sizes): number {
  let size = 0;
  for (let i = 0; i < tensor.data.length; i++) {
    const length = sizes.keep(utf8Length(tensor.data[i] as string));
    if (length < 0) {
      const { dtype, shape } = tensor;
      throw wrongElement(tensor.data[i], i, { dtype, shape, name: undefined });
    }
    size += delimitedSize(length);
  }
  return size;
}

function writeStrings(
  data: readonly string[],
  sizes: Sizes,
  target: Uint8Array,
  pos: number,
): number {
  for (let i = 0; i < data.length; i++) {
    const length = sizes.take();
    pos = writeUtf8(data[i] as string, length, target, begin(ARRAY, length, target, pos));
  }
  return pos;
}

function anysSize(tensor: PackedTensor<"proto">, sizes: Sizes): number {
  let size = 0;
  for (let i = 0; i < tensor.data.length; i++) {
    const { typeUrl, value } = tensor.data[i] as Any;
    const place = sizes.reserve();
    const length = sizes.keep(utf8Length(typeUrl));
    if (length < 0) {
      const { dtype, shape } = tensor;
      throw wrongElement(typeUrl, i, { dtype, shape, name: undefined });
    }
    size += delimitedSize(
      sizes.put(
        place,
        (length === 0 ? 0 : delimitedSize(length)) +
          (value.length === 0 ? 0 : delimitedSize(value.length)),
      ),
    );
  }
  return size;
}

function writeAnys(data: readonly Any[], sizes: Sizes, target: Uint8Array, pos: number): number {
  for (const { typeUrl, value } of data) {
    pos = begin(ARRAY, sizes.take(), target, pos);
    const length = sizes.take();
    if (length > 0) {
      pos = writeUtf8(typeUrl, length, target, begin(TYPE_URL, length, target, pos));
    }
    if (value.length > 0) {
      pos = begin(VALUE, value.length, target, pos);
      target.set(value, pos);
      pos += value.length;
    }
  }
  return pos;
}
