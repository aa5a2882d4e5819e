// SPDX-License-Identifier: Apache-2.0
import { bits, highHalf, littleEndianHost, lowHalf, swapBytes } from "./bits.ts";

/** An array of floats. On a little-endian machine, its memory equals its bytes on the wire. */
export type FixedArray = Float32Array | Float64Array;

interface FixedArrayConstructor<T extends FixedArray> {
  readonly BYTES_PER_ELEMENT: number;
  new (buffer: ArrayBufferLike, byteOffset?: number, length?: number): T;
}

/**
 * Returns the floats in `byteLength` bytes from `start`: a view where alignment allows and
 * no copy is requested, else a copy. Preserves every bit, including those of a NaN.
 */
export function readFixed<T extends FixedArray>(
  type: FixedArrayConstructor<T>,
  source: Uint8Array,
  start: number,
  byteLength: number,
  copy: boolean,
  littleEndian: boolean = littleEndianHost,
): T {
  const width = type.BYTES_PER_ELEMENT;
  const at = source.byteOffset + start;
  if (!copy && littleEndian && at % width === 0) {
    return new type(source.buffer, at, byteLength / width);
  }
  const bytes = new Uint8Array(byteLength);
  bytes.set(source.subarray(start, start + byteLength));
  if (!littleEndian) {
    swapBytes(bytes, width);
  }
  return new type(bytes.buffer);
}

/** Writes floats as they are, bit for bit; returns the position after them. */
export function writeFixed(
  data: FixedArray,
  target: Uint8Array,
  pos: number,
  littleEndian: boolean = littleEndianHost,
): number {
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  target.set(bytes, pos);
  const end = pos + bytes.length;
  if (!littleEndian) {
    swapBytes(target.subarray(pos, end), data.BYTES_PER_ELEMENT);
  }
  return end;
}

/** Reads one float32. Returns undefined for a NaN, because a JavaScript number can lose its payload. */
export function readFloat32(source: Uint8Array, pos: number): number | undefined {
  const word = readWord(source, pos);
  if ((word & 0x7f800000) === 0x7f800000 && (word & 0x007fffff) !== 0) {
    return undefined;
  }
  bits.int32[0] = word;
  return bits.float32[0];
}

/** Reads one float64. Returns undefined for a NaN, because a JavaScript number can lose its payload. */
export function readFloat64(source: Uint8Array, pos: number): number | undefined {
  bits.int32[lowHalf] = readWord(source, pos);
  bits.int32[highHalf] = readWord(source, pos + 4);
  const value = bits.float64[0] as number;
  return Number.isNaN(value) ? undefined : value;
}

/** Writes one float32 other than NaN. */
export function writeFloat32(value: number, target: Uint8Array, pos: number): number {
  bits.float32[0] = value;
  return writeWord(bits.int32[0] as number, target, pos);
}

/** Writes one float64 other than NaN. */
export function writeFloat64(value: number, target: Uint8Array, pos: number): number {
  bits.float64[0] = value;
  const high = bits.int32[highHalf] as number;
  return writeWord(high, target, writeWord(bits.int32[lowHalf] as number, target, pos));
}

function readWord(source: Uint8Array, pos: number): number {
  return (
    (source[pos] as number) |
    ((source[pos + 1] as number) << 8) |
    ((source[pos + 2] as number) << 16) |
    ((source[pos + 3] as number) << 24)
  );
}

function writeWord(word: number, target: Uint8Array, pos: number): number {
  target[pos] = word;
  target[pos + 1] = word >>> 8;
  target[pos + 2] = word >>> 16;
  target[pos + 3] = word >>> 24;
  return pos + 4;
}
