// SPDX-License-Identifier: Apache-2.0
import { tooManyElements } from "../../errors/limits.ts";
import {
  type FixedArray,
  readFixed,
  readFloat32,
  readFloat64,
  writeFixed,
  writeFloat32,
  writeFloat64,
} from "../primitives/fixed.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import { fixed32Type, fixed64Type } from "../primitives/wire-type.ts";
import type { PackedEncoding } from "./encoding.ts";

/** Up to this many elements, a loop is faster than a call that copies all of them. */
const maxLoopedElements = 4;

// Duplicated on purpose: shared code would turn the constants of each into variables, which is slower.

/** `repeated float`: four bytes each. */
export const floats32: PackedEncoding<Float32Array> = {
  packed: true,
  alone: fixed32Type,
  width: 4,
  size: (data) => data.length * 4,
  write: (data, _size, target, pos) => {
    if (data.length > maxLoopedElements || hasNaN(data)) {
      return writeFixed(data, target, pos);
    }
    for (let i = 0; i < data.length; i++) {
      pos = writeFloat32(data[i] as number, target, pos);
    }
    return pos;
  },
  check: (reader, start, end) => checkWidth(reader, start, end, 4),
  checkLength: (reader, start, end, options) => {
    countFloats(reader, start, end, 4, options);
  },
  workOf: () => 0,
  read: (reader, options) => {
    const { source, pos, end } = reader;
    if (countFloats(reader, pos, end, 4, options) === 1) {
      const value = readFloat32(source, pos);
      if (value !== undefined) {
        const out = new Float32Array(1);
        out[0] = value;
        return out;
      }
    }
    return readFixed(Float32Array, source, pos, end - pos, options.copy);
  },
  readOne: (source, pos, size, data) => {
    const value = size === 4 ? readFloat32(source, pos) : undefined;
    if (value === undefined) {
      return false;
    }
    data[0] = value;
    return true;
  },
};

/** `repeated double`: eight bytes each. */
export const floats64: PackedEncoding<Float64Array> = {
  packed: true,
  alone: fixed64Type,
  width: 8,
  size: (data) => data.length * 8,
  write: (data, _size, target, pos) => {
    if (data.length > maxLoopedElements || hasNaN(data)) {
      return writeFixed(data, target, pos);
    }
    for (let i = 0; i < data.length; i++) {
      pos = writeFloat64(data[i] as number, target, pos);
    }
    return pos;
  },
  check: (reader, start, end) => checkWidth(reader, start, end, 8),
  checkLength: (reader, start, end, options) => {
    countFloats(reader, start, end, 8, options);
  },
  workOf: () => 0,
  read: (reader, options) => {
    const { source, pos, end } = reader;
    if (countFloats(reader, pos, end, 8, options) === 1) {
      const value = readFloat64(source, pos);
      if (value !== undefined) {
        const out = new Float64Array(1);
        out[0] = value;
        return out;
      }
    }
    return readFixed(Float64Array, source, pos, end - pos, options.copy);
  },
  readOne: (source, pos, size, data) => {
    const value = size === 8 ? readFloat64(source, pos) : undefined;
    if (value === undefined) {
      return false;
    }
    data[0] = value;
    return true;
  },
};

/** Returns true if the data has a NaN. A NaN is copied as bytes, because a JavaScript number can lose its payload. */
function hasNaN(data: FixedArray): boolean {
  for (let i = 0; i < data.length; i++) {
    if (Number.isNaN(data[i])) {
      return true;
    }
  }
  return false;
}

function checkWidth(reader: Reader, start: number, end: number, width: number): void {
  if ((end - start) % width === 0) {
    return;
  }
  throw reader.malformed(`a multiple of ${width} bytes`, `${end - start}`, start);
}

function countFloats(
  reader: Reader,
  start: number,
  end: number,
  width: number,
  { maxElements }: ReadOptions,
): number {
  checkWidth(reader, start, end, width);
  const count = (end - start) / width;
  if (count > maxElements) {
    throw tooManyElements(count, maxElements);
  }
  return count;
}
