// SPDX-License-Identifier: Apache-2.0
import { bits, highHalf, lowHalf } from "./bits.ts";

/** Returns the size of an unsigned 32-bit varint. */
export function varintSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5;
}

/** Returns the size of an int32 as a varint: ten bytes if it is negative. */
export function int32Size(value: number): number {
  return value < 0 ? 10 : varintSize(value);
}

/** Returns the size of a 64-bit varint, given by its halves. */
export function halvesSize(low: number, high: number): number {
  // (9 n + 64) / 64 is ⌈n / 7⌉ for n from 1 to 64 significant bits.
  return high === 0 ? (352 - Math.clz32(low | 1) * 9) >>> 6 : (640 - Math.clz32(high) * 9) >>> 6;
}

/** Writes an unsigned 32-bit varint; returns the position after it. */
export function writeVarint(value: number, target: Uint8Array, pos: number): number {
  let rest = value;
  while (rest > 0x7f) {
    target[pos++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[pos++] = rest;
  return pos;
}

/** Writes an int32 as a varint; returns the position after it. */
export function writeInt32(value: number, target: Uint8Array, pos: number): number {
  if (value >= 0) {
    return writeVarint(value, target, pos);
  }
  target[pos] = value | 0x80;
  target[pos + 1] = (value >>> 7) | 0x80;
  target[pos + 2] = (value >>> 14) | 0x80;
  target[pos + 3] = (value >>> 21) | 0x80;
  target[pos + 4] = (value >>> 28) | 0xf0;
  target[pos + 5] = 0xff;
  target[pos + 6] = 0xff;
  target[pos + 7] = 0xff;
  target[pos + 8] = 0xff;
  target[pos + 9] = 1;
  return pos + 10;
}

/** Writes a 64-bit varint, given by its halves; returns the position after it. */
export function writeHalves(low: number, high: number, target: Uint8Array, pos: number): number {
  if (high === 0) {
    return writeVarint(low >>> 0, target, pos);
  }
  target[pos] = low | 0x80;
  target[pos + 1] = (low >>> 7) | 0x80;
  target[pos + 2] = (low >>> 14) | 0x80;
  target[pos + 3] = (low >>> 21) | 0x80;
  let rest = high >>> 3;
  target[pos + 4] = (low >>> 28) | ((high & 7) << 4) | (rest === 0 ? 0 : 0x80);
  pos += 5;
  if (high < 0) {
    target[pos] = rest | 0x80;
    target[pos + 1] = (rest >>> 7) | 0x80;
    target[pos + 2] = (rest >>> 14) | 0x80;
    target[pos + 3] = (rest >>> 21) | 0x80;
    target[pos + 4] = 1;
    return pos + 5;
  }
  while (rest !== 0) {
    const next = rest >>> 7;
    target[pos++] = next === 0 ? rest : rest | 0x80;
    rest = next;
  }
  return pos;
}

/** Integers of at most 32 bits. */
export type IntegerArray =
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array;

/** Returns the size of integers of at most 32 bits as packed varints. */
export function varintsSize(data: IntegerArray): number {
  let all = 0;
  for (let i = 0; i < data.length; i++) {
    all |= data[i] as number;
  }
  if (all >>> 0 < 0x80) {
    return data.length;
  }
  // A sign adds five bytes to the five of 32 bits; the top bit of a uint32 is not a sign.
  const negative = data[Symbol.toStringTag] === "Uint32Array" ? 0 : 5;
  let size = 0;
  for (let i = 0; i < data.length; i++) {
    const value = data[i] as number;
    size += ((352 - Math.clz32(value | 1) * 9) >>> 6) + ((value >> 31) & negative);
  }
  return size;
}

/** Writes integers of at most 32 bits as `size` bytes of packed varints; returns the position after them. */
export function writeVarints(
  data: IntegerArray,
  size: number,
  target: Uint8Array,
  pos: number,
): number {
  if (size === data.length) {
    for (let i = 0; i < size; i++) {
      target[pos + i] = data[i] as number;
    }
    return pos + size;
  }
  for (let i = 0; i < data.length; i++) {
    const value = data[i] as number;
    if (value >= 0 && value < 0x80) {
      target[pos++] = value;
    } else {
      pos = writeInt32(value, target, pos);
    }
  }
  return pos;
}

/** From this many 64-bit elements on, a view of their halves is faster than a bigint each. */
const halvesFrom = 8;

/** Returns the size of 64-bit integers as packed varints. */
export function varints64Size(data: BigInt64Array | BigUint64Array): number {
  let size = 0;
  if (data.length < halvesFrom) {
    for (let i = 0; i < data.length; i++) {
      bits.int64[0] = data[i] as bigint;
      size += halvesSize(bits.int32[lowHalf] as number, bits.int32[highHalf] as number);
    }
    return size;
  }
  const halves = new Int32Array(data.buffer, data.byteOffset, data.length * 2);
  for (let i = 0; i < halves.length; i += 2) {
    size += halvesSize(halves[i + lowHalf] as number, halves[i + highHalf] as number);
  }
  return size;
}

/** Writes 64-bit integers as packed varints; returns the position after them. */
export function writeVarints64(
  data: BigInt64Array | BigUint64Array,
  target: Uint8Array,
  pos: number,
): number {
  if (data.length < halvesFrom) {
    for (let i = 0; i < data.length; i++) {
      bits.int64[0] = data[i] as bigint;
      pos = writeHalves(bits.int32[lowHalf] as number, bits.int32[highHalf] as number, target, pos);
    }
    return pos;
  }
  const halves = new Int32Array(data.buffer, data.byteOffset, data.length * 2);
  for (let i = 0; i < halves.length; i += 2) {
    pos = writeHalves(halves[i + lowHalf] as number, halves[i + highHalf] as number, target, pos);
  }
  return pos;
}

/** From this many bytes on, counting four at a time outweighs the cost of the view. */
const wordsFrom = 256;

/** Returns the number of varints that end in a range, which is its number of elements. */
export function countVarints(source: Uint8Array, start: number, end: number): number {
  let open = 0;
  let at = start;
  if (end - start >= wordsFrom) {
    while ((source.byteOffset + at) % 4 !== 0) {
      open += (source[at++] as number) >>> 7;
    }
    const count = (end - at) >>> 2;
    const words = new Int32Array(source.buffer, source.byteOffset + at, count);
    for (let i = 0; i < count; ) {
      // Four sums in one byte each, all at most 255.
      const stop = Math.min(count, i + 255);
      let sums = 0;
      for (; i < stop; i++) {
        sums += ((words[i] as number) >>> 7) & 0x01010101;
      }
      open += (sums & 0xff) + ((sums >>> 8) & 0xff) + ((sums >>> 16) & 0xff) + (sums >>> 24);
    }
    at += count * 4;
  }
  for (; at < end; at++) {
    open += (source[at] as number) >>> 7;
  }
  return end - start - open;
}

/**
 * Reads one varint for each element of `out`, truncated to the element's width. The range must
 * hold that many (`countVarints`).
 *
 * @returns False if a varint is too long.
 */
export function readVarints(source: Uint8Array, start: number, out: IntegerArray): boolean {
  let pos = start;
  for (let i = 0; i < out.length; i++) {
    let byte = source[pos++] as number;
    let value = byte & 0x7f;
    if (byte > 0x7f) {
      byte = source[pos++] as number;
      value |= (byte & 0x7f) << 7;
      if (byte > 0x7f) {
        byte = source[pos++] as number;
        value |= (byte & 0x7f) << 14;
        if (byte > 0x7f) {
          byte = source[pos++] as number;
          value |= (byte & 0x7f) << 21;
          if (byte > 0x7f) {
            byte = source[pos++] as number;
            value |= byte << 28;
            if (byte > 0x7f) {
              pos = endOfVarint(source, pos);
              if (pos < 0) {
                return false;
              }
            }
          }
        }
      }
    }
    out[i] = value;
  }
  return true;
}

/** Returns the end of a varint after its first five bytes; -1 if it has more than ten. */
function endOfVarint(source: Uint8Array, pos: number): number {
  if (source[pos] === 0xff && source[pos + 1] === 0xff && source[pos + 2] === 0xff) {
    // A negative int32, nearly always.
    if (source[pos + 3] === 0xff && source[pos + 4] === 1) {
      return pos + 5;
    }
  }
  for (let at = pos; at < pos + 5; at++) {
    if ((source[at] as number) < 0x80) {
      return at + 1;
    }
  }
  return -1;
}

/** Like `readVarints`, for 64-bit elements, given by pairs of halves. */
export function readHalves(source: Uint8Array, start: number, halves: Int32Array): boolean {
  let pos = start;
  for (let i = 0; i < halves.length; i += 2) {
    let byte = source[pos++] as number;
    let low = byte & 0x7f;
    let high = 0;
    if (byte > 0x7f) {
      byte = source[pos++] as number;
      low |= (byte & 0x7f) << 7;
      if (byte > 0x7f) {
        byte = source[pos++] as number;
        low |= (byte & 0x7f) << 14;
        if (byte > 0x7f) {
          byte = source[pos++] as number;
          low |= (byte & 0x7f) << 21;
          if (byte > 0x7f) {
            byte = source[pos++] as number;
            low |= byte << 28;
            high = (byte & 0x7f) >>> 4;
            for (let shift = 3; byte > 0x7f; shift += 7) {
              if (shift > 31) {
                return false;
              }
              byte = source[pos++] as number;
              high |= (byte & 0x7f) << shift;
            }
          }
        }
      }
    }
    halves[i + lowHalf] = low;
    halves[i + highHalf] = high;
  }
  return true;
}
