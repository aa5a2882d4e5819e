// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { t } from "./build.ts";

const refusal = (text: string) =>
  expect.objectContaining({
    name: "TensorError",
    reason: "spec",
    message: expect.stringContaining(text),
  });

describe("builders", () => {
  test("build a spec of each dtype, scalar or with a shape", () => {
    expect(t.float32()).toEqual({ dtype: "float32", shape: [] });
    expect(t.uint8([11, 11, 3])).toEqual({ dtype: "uint8", shape: [11, 11, 3] });
    expect(t.int8({ min: 0, max: 4 })).toEqual({ dtype: "int8", shape: [], min: 0, max: 4 });
    expect(t.uint64([2], { max: 7n })).toEqual({ dtype: "uint64", shape: [2], max: 7n });
    expect(t.bool([2])).toEqual({ dtype: "bool", shape: [2] });
    expect(t.string([-1])).toEqual({ dtype: "string", shape: [-1] });
    expect(t.proto()).toEqual({ dtype: "proto", shape: [] });
    expect(t.discrete(5)).toEqual({ dtype: "int32", shape: [], min: 0, max: 4 });
    expect(t.discrete(5, "uint64")).toEqual({ dtype: "uint64", shape: [], min: 0n, max: 4n });
    expect(t.discrete(128, "uint8")).toEqual({ dtype: "uint8", shape: [], min: 0, max: 127 });
  });

  test("copy per-element bounds to a new typed array", () => {
    const min = new Float32Array([0, 1]);
    const spec = t.float32([2], { min, max: [2, 3] });
    expect(spec).toEqual({
      dtype: "float32",
      shape: [2],
      min: new Float32Array([0, 1]),
      max: new Float32Array([2, 3]),
    });
    expect(spec.min).not.toBe(min);
    expect(t.int32([1, 2], { min: [[3, 4]] }).min).toEqual(new Int32Array([3, 4]));
    expect(t.int64([2], { max: [3n, 4n] }).max).toEqual(new BigInt64Array([3n, 4n]));
  });

  test("replace equal per-element bounds by one scalar", () => {
    expect(t.int8([2], { min: [3], max: [4, 4] })).toEqual(t.int8([2], { min: 3, max: 4 }));
  });

  test("round the bounds of float32 as its elements are rounded", () => {
    expect(t.float32({ max: 0.1 }).max).toBe(Math.fround(0.1));
    expect(t.float32({ min: Number.NEGATIVE_INFINITY }).min).toBe(Number.NEGATIVE_INFINITY);
  });
});

describe("builders accept", () => {
  test("one value as both bounds", () => {
    expect(t.int8({ min: 2, max: 2 })).toEqual({ dtype: "int8", shape: [], min: 2, max: 2 });
    expect(t.int8([2], { min: [2, 3], max: [2, 4] }).min).toEqual(Int8Array.of(2, 3));
  });

  test("dimensions of 0, and up to 31 bits", () => {
    expect(t.float32([0, 0]).shape).toEqual([0, 0]);
    expect(t.float32([0, -1]).shape).toEqual([0, -1]);
    expect(t.int8([2 ** 31 - 1]).shape).toEqual([2 ** 31 - 1]);
    expect(() => t.int8([2 ** 31])).toThrow("expected a shape of 32-bit integers");
  });
});

describe("builders refuse", () => {
  test.each<[string, () => unknown, string]>([
    [
      "two variable dimensions",
      () => t.float32([-1, -1]),
      "at most one variable (negative) dimension",
    ],
    ["a fraction as dimension", () => t.float32([1.5]), "32-bit integers"],
    ["a dimension of 2^31", () => t.float32([2 ** 31]), "32-bit integers"],
    ["min above max", () => t.int8({ min: 2, max: 1 }), "min at most max, received 2 and 1"],
    [
      "one min above its max",
      () => t.int8([2], { min: [0, 5], max: 4 }),
      "5 and 4 for element [1]",
    ],
    ["a bound beyond the dtype", () => t.int8({ max: 200 }), "a number from -128 to 127 as max"],
    ["a fraction as an integer's bound", () => t.int8({ min: 0.5 }), "an integer as min"],
    ["NaN as a bound", () => t.float32({ min: Number.NaN }), "as min of a float32 spec"],
    [
      "a bigint as a number's bound",
      () => t.int32({ min: 1n as never }),
      "as min of an int32 spec",
    ],
    ["a number as a bigint's bound", () => t.int64({ min: 1 as never }), "a bigint as min"],
    [
      "bounds in a typed array of another dtype",
      () => t.int32([2], { min: new Int8Array(2) as never }),
      "Int8Array of 2",
    ],
    [
      "a wrong number of bounds per element",
      () => t.int32([2], { min: new Int32Array(3) }),
      "one min for all elements or 2",
    ],
    [
      "bounds of strings",
      () => (t.int32 as never as (a: unknown, b: unknown) => void)([2], { max: "x" }),
      "as max",
    ],
    ["a discrete spec of no values", () => t.discrete(0), "min at most max, received 0 and -1"],
    ["a discrete spec of 2.5 values", () => t.discrete(2.5), "an integer as max"],
    [
      "a discrete spec of more values than the dtype has",
      () => t.discrete(300, "uint8"),
      "a number from 0 to 255",
    ],
  ])("%s", (_, make, text) => {
    expect(make).toThrow(refusal(text));
  });

  test("min above max, with an error that names an element only if the bounds are per element", () => {
    expect(() => t.int8({ min: 2, max: 1 })).toThrow(/received 2 and 1$/);
  });

  test("behaviour 16: a bound for each element of a variable-length spec", () => {
    const remedy = "give a scalar: the number of elements varies";
    expect(() => t.float32([-1], { max: Float32Array.of(1, 2) })).toThrow(refusal(remedy));
    expect(() => t.float32([-1], { min: [1, 2] })).toThrow(
      refusal("one min for all elements of shape [-1], received 2"),
    );
    expect(() => t.float32([2, -1], { max: [1, 2] as never })).toThrow(/shape|variable/);
  });
});

describe("behaviour 16: bounds may be", () => {
  test("one for all elements of a variable-length spec", () => {
    expect(t.float32([-1], { min: 0 })).toEqual({ dtype: "float32", shape: [-1], min: 0 });
    expect(t.int8([2, -1], { min: [-1], max: Int8Array.of(5) })).toEqual({
      dtype: "int8",
      shape: [2, -1],
      min: -1,
      max: 5,
    });
  });

  test("a scalar integer's whole range, or its range from 0", () => {
    expect(t.uint8({ min: 0, max: 255 })).toEqual({ dtype: "uint8", shape: [], min: 0, max: 255 });
    expect(t.int32({ min: 0 })).toEqual({ dtype: "int32", shape: [], min: 0 });
    expect(t.int64({ min: 0n, max: 2n ** 63n - 1n })).toMatchObject({ max: 2n ** 63n - 1n });
    expect(t.discrete(256, "uint8")).toMatchObject({ min: 0, max: 255 });
    expect(t.discrete(2 ** 31)).toMatchObject({ min: 0, max: 2 ** 31 - 1 });
  });
});
