// SPDX-License-Identifier: Apache-2.0

/** Pairs of positions: a start and an end each. */
export type Ranges = number[];

/**
 * Returns the bytes of several ranges, concatenated. Protobuf merges the parts of a message by
 * concatenation.
 */
export function concatenate(source: Uint8Array, ranges: Ranges): Uint8Array {
  let length = 0;
  for (let i = 0; i < ranges.length; i += 2) {
    length += (ranges[i + 1] as number) - (ranges[i] as number);
  }
  const whole = new Uint8Array(length);
  let pos = 0;
  for (let i = 0; i < ranges.length; i += 2) {
    const start = ranges[i] as number;
    const end = ranges[i + 1] as number;
    // A loop is faster than a subarray for unpacked elements, which are short.
    if (end - start < 32) {
      for (let at = start; at < end; at++) {
        whole[pos++] = source[at] as number;
      }
    } else {
      whole.set(source.subarray(start, end), pos);
      pos += end - start;
    }
  }
  return whole;
}
