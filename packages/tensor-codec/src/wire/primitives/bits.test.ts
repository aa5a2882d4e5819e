// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { swapBytes } from "./bits.ts";
import { readFixed, writeFixed } from "./fixed.ts";

describe("on a big-endian machine", () => {
  // On such a machine, the memory of these arrays would have its bytes swapped.
  const asIfBigEndian = (data: Float32Array | Float64Array) => {
    const swapped = data.slice();
    swapBytes(new Uint8Array(swapped.buffer), data.BYTES_PER_ELEMENT);
    return swapped;
  };

  test.each([
    new Float32Array([1, -0, 1e-40, Number.NaN]),
    new Float64Array([Math.PI, Number.NEGATIVE_INFINITY, 5e-324]),
  ])("floats are swapped when they are written and read", (data) => {
    const target = new Uint8Array(3 + data.byteLength);
    expect(writeFixed(asIfBigEndian(data), target, 3, false)).toBe(target.length);
    const wire = new Uint8Array(data.buffer);
    expect(target.subarray(3)).toEqual(wire);

    const type = data instanceof Float32Array ? Float32Array : Float64Array;
    const read = readFixed<Float32Array | Float64Array>(
      type,
      target,
      3,
      data.byteLength,
      false,
      false,
    );
    expect(new Uint8Array(read.buffer)).toEqual(new Uint8Array(asIfBigEndian(data).buffer));
  });

  test("an aligned array is copied, because a view would have swapped bytes", () => {
    const source = new Uint8Array(8);
    const read = readFixed(Float32Array, source, 0, 8, false, false);
    expect(read.buffer).not.toBe(source.buffer);
    expect(readFixed(Float32Array, source, 0, 8, false, true).buffer).toBe(source.buffer);
  });
});
