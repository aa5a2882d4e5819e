// SPDX-License-Identifier: Apache-2.0

/** True on a little-endian machine; the wire is little-endian. */
export const littleEndianHost: boolean = new Uint8Array(new Uint16Array([1]).buffer)[0] === 1;

const scratch = new ArrayBuffer(8);

/**
 * One piece of memory under several types, to reinterpret the bits of a number without an allocation. Many
 * functions share it, so none may rely on its content after it has returned.
 */
export const bits: {
  readonly float32: Float32Array;
  readonly float64: Float64Array;
  readonly int64: BigInt64Array;
  readonly uint64: BigUint64Array;
  /** The halves of a value in `float64`, `int64` or `uint64` are at the indexes `lowHalf` and `highHalf`. */
  readonly int32: Int32Array;
} = {
  float32: new Float32Array(scratch, 0, 1),
  float64: new Float64Array(scratch),
  int64: new BigInt64Array(scratch),
  uint64: new BigUint64Array(scratch),
  int32: new Int32Array(scratch),
};

/** Indexes of the low and the high half of a 64-bit element in an Int32Array over the same memory. */
export const lowHalf: 0 | 1 = littleEndianHost ? 0 : 1;
export const highHalf: 0 | 1 = littleEndianHost ? 1 : 0;

/** Reverses the bytes of each element of `width` bytes, in place. */
export function swapBytes(bytes: Uint8Array, width: number): void {
  for (let at = 0; at + width <= bytes.length; at += width) {
    for (let low = at, high = at + width - 1; low < high; low++, high--) {
      const byte = bytes[low] as number;
      bytes[low] = bytes[high] as number;
      bytes[high] = byte;
    }
  }
}
