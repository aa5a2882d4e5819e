// SPDX-License-Identifier: Apache-2.0
import { bits, highHalf, lowHalf } from "./bits.ts";

/** Bytes of an unsigned 32-bit varint. */
export function varintSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5;
}

/** Bytes of an int32 as a varint: ten when it is negative. */
export function int32Size(value: number): number {
  return value < 0 ? 10 : varintSize(value);
}

/** Bytes of a 64-bit varint, given by its halves. */
export function halvesSize(low: number, high: number): number {
  if (high === 0) return varintSize(low >>> 0);
  const bitsOfHigh = 32 - Math.clz32(high);
  return Math.ceil((32 + bitsOfHigh) / 7);
}

/** Writes an unsigned 32-bit varint; returns the position behind it. */
export function writeVarint(value: number, target: Uint8Array, pos: number): number {
  let rest = value;
  while (rest > 0x7f) {
    target[pos++] = (rest & 0x7f) | 0x80;
    rest >>>= 7;
  }
  target[pos++] = rest;
  return pos;
}

/** Writes an int32 as a varint; returns the position behind it. */
export function writeInt32(value: number, target: Uint8Array, pos: number): number {
  if (value >= 0) return writeVarint(value, target, pos);
  target[pos++] = (value & 0x7f) | 0x80;
  target[pos++] = ((value >>> 7) & 0x7f) | 0x80;
  target[pos++] = ((value >>> 14) & 0x7f) | 0x80;
  target[pos++] = ((value >>> 21) & 0x7f) | 0x80;
  target[pos++] = (value >>> 28) | 0xf0;
  target[pos++] = 0xff;
  target[pos++] = 0xff;
  target[pos++] = 0xff;
  target[pos++] = 0xff;
  target[pos++] = 1;
  return pos;
}

/** Writes a 64-bit varint, given by its halves; returns the position behind it. */
export function writeHalves(low: number, high: number, target: Uint8Array, pos: number): number {
  let lowRest = low;
  let highRest = high;
  while (highRest !== 0 || lowRest >>> 0 > 0x7f) {
    target[pos++] = (lowRest & 0x7f) | 0x80;
    lowRest = (lowRest >>> 7) | (highRest << 25);
    highRest >>>= 7;
  }
  target[pos++] = lowRest;
  return pos;
}

/** Bytes of int32s or uint32s as packed varints. */
export function varintsSize(data: Int32Array | Uint32Array): number {
  let size = 0;
  for (let i = 0; i < data.length; i++) size += int32Size(data[i] as number);
  return size;
}

/** Writes int32s or uint32s as packed varints; returns the position behind them. */
export function writeVarints(
  data: Int32Array | Uint32Array,
  target: Uint8Array,
  pos: number,
): number {
  for (let i = 0; i < data.length; i++) {
    const value = data[i] as number;
    if (value >= 0 && value < 0x80) target[pos++] = value;
    else pos = writeInt32(value, target, pos);
  }
  return pos;
}

/** From this many 64-bit elements on, seeing them as halves costs less than a bigint each. */
const FEW = 8;

/** Bytes of 64-bit integers as packed varints. */
export function varints64Size(data: BigInt64Array | BigUint64Array): number {
  let size = 0;
  if (data.length < FEW) {
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

/** Writes 64-bit integers as packed varints; returns the position behind them. */
export function writeVarints64(
  data: BigInt64Array | BigUint64Array,
  target: Uint8Array,
  pos: number,
): number {
  if (data.length < FEW) {
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

/** How many varints end in a range: as many as it has elements. */
export function countVarints(source: Uint8Array, start: number, end: number): number {
  let open = 0;
  for (let i = start; i < end; i++) open += (source[i] as number) >>> 7;
  return end - start - open;
}

/**
 * Reads as many varints as `out` is long, the low 32 bits of each. The range must
 * be known to hold that many (`countVarints`); returns false when one is too long.
 */
export function readVarints(
  source: Uint8Array,
  start: number,
  out: Int32Array | Uint32Array,
): boolean {
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
            for (let more = 0; byte > 0x7f; more++) {
              if (more === 5) return false;
              byte = source[pos++] as number;
            }
          }
        }
      }
    }
    out[i] = value;
  }
  return true;
}

/** Reads as many 64-bit varints as `halves` has pairs; as `readVarints` otherwise. */
export function readHalves(source: Uint8Array, start: number, halves: Int32Array): boolean {
  let pos = start;
  for (let i = 0; i < halves.length; i += 2) {
    let byte = source[pos++] as number;
    let low = byte & 0x7f;
    let high = 0;
    if (byte > 0x7f) {
      let shift = 7;
      do {
        byte = source[pos++] as number;
        low |= (byte & 0x7f) << shift;
        shift += 7;
      } while (byte > 0x7f && shift < 28);
      if (byte > 0x7f) {
        byte = source[pos++] as number;
        low |= (byte & 0x7f) << 28;
        high = (byte & 0x7f) >>> 4;
        for (shift = 3; byte > 0x7f; shift += 7) {
          if (shift > 31) return false;
          byte = source[pos++] as number;
          high |= (byte & 0x7f) << shift;
        }
      }
    }
    halves[i + lowHalf] = low;
    halves[i + highHalf] = high;
  }
  return true;
}
