// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { bitsOf } from "../../testing/bits.ts";
import { t } from "../specs/build.ts";
import { type PackedTensor, tensor } from "../tensors/tensor.ts";
import { pack, packFor } from "./pack.ts";
import { toNested, toScalar, toValue, unpack, unpackFor } from "./unpack.ts";

const refusal = (reason: string, text: string) =>
  expect.objectContaining({ name: "TensorError", reason, message: expect.stringContaining(text) });

const floats = (shape: readonly number[], ...values: number[]): PackedTensor<"float32"> => ({
  dtype: "float32",
  shape,
  data: Float32Array.from(values),
});

describe("unpack", () => {
  test("returns a tensor without variable dimension or broadcast unchanged", () => {
    const whole = floats([2, 1], 1, 2);
    expect(unpack(whole)).toBe(whole);
  });

  test("behaviour 11: one variable dimension is inferred, two are an error", () => {
    expect(unpack(floats([2, -1], 1, 2, 3, 4, 5, 6)).shape).toEqual([2, 3]);
    expect(unpack(floats([-7, 3], 1, 2, 3)).shape).toEqual([1, 3]);
    expect(unpack(floats([-1])).shape).toEqual([0]);
    expect(unpack(floats([0, -1])).shape).toEqual([0, 0]);
    expect(() => unpack(floats([2, -1], 1, 2, 3))).toThrow(refusal("shape", "a multiple of 2"));
    expect(() => unpack(floats([0, -1], 1, 2))).toThrow(refusal("shape", "shape [0, -1]"));
    expect(() => unpack(floats([-1, -1], 1), { name: "x" })).toThrow(
      refusal(
        "shape",
        '"x": expected at most one variable (negative) dimension, received shape [-1, -1]',
      ),
    );
  });

  test("behaviour 12: one element fills the shape, and a variable dimension is 1", () => {
    expect(unpack(floats([2, 2], 7))).toEqual(floats([2, 2], 7, 7, 7, 7));
    expect(unpack(floats([3, -1], 7))).toEqual(floats([3, 1], 7, 7, 7));
    expect(unpack(floats([-1], 7))).toEqual(floats([1], 7));
    expect(unpack(pack(["a"], { shape: [2] })).data).toEqual(["a", "a"]);
    expect(() => unpack(floats([0], 7))).toThrow(refusal("shape", "0 elements for shape [0]"));
    expect(() => unpack(floats([0, -1], 7))).toThrow(refusal("shape", "[0, -1]"));
  });

  test("behaviour 13: a broadcast NaN keeps its payload", () => {
    const data = new Float32Array(new Uint32Array([0x7f800001]).buffer);
    const packed = { dtype: "float32", shape: [2], data } as const;
    expect(bitsOf(unpack(packed))).toMatchObject({ data: "0100807f0100807f" });
    const wide = new Float64Array(new BigUint64Array([0x7ff0000000000001n]).buffer);
    expect(bitsOf(unpack({ dtype: "float64", shape: [2], data: wide }))).toMatchObject({
      data: "010000000000f07f010000000000f07f",
    });
  });

  test("behaviour 12: a broadcast is checked against a limit before it is allocated", () => {
    expect(() => unpack(floats([2 ** 20, 17], 1))).toThrow(
      refusal("limit", "at most 16777216 elements (limit: maxElements)"),
    );
    expect(() => unpack(floats([5], 1), { maxElements: 4 })).toThrow(
      refusal("limit", "received 5"),
    );
    expect(() => unpack(floats([2], 1, 2), { maxElements: 1 })).toThrow(refusal("limit", "2"));
    expect(() => unpack(floats([-1], 1, 2), { maxElements: 1 })).toThrow(refusal("limit", "2"));
    expect(() => unpack(floats([5, -1], 1), { maxElements: 4 })).toThrow(refusal("limit", "5"));
  });

  test("behaviour 10: a scalar has exactly one element", () => {
    expect(() => unpack(floats([]))).toThrow(refusal("shape", "one element for a scalar"));
    expect(() => unpack(floats([], 1, 2))).toThrow(refusal("shape", "received 2"));
    expect(() => unpack(floats([3], 1, 2))).toThrow(
      refusal("shape", "3 elements (or one for all of them)"),
    );
  });

  test("a tensor without payload is refused", () => {
    expect(() => unpack({ dtype: "unset", shape: [], data: [] })).toThrow(
      refusal("dtype", "without payload"),
    );
  });
});

describe("unpackFor", () => {
  test("returns the tensor that a spec describes", () => {
    const whole = floats([2], 1, 2);
    expect(unpackFor(whole, t.float32([2]), "x")).toBe(whole);
    expect(unpackFor(whole, t.float32([-1]), "x")).toBe(whole);
    expect(unpackFor(floats([-1], 1, 2), t.float32([2]), "x")).toEqual(whole);
    expect(unpackFor(floats([2], 5), t.float32([2]), "x")).toEqual(floats([2], 5, 5));
  });

  test("refuses another dtype, rank, size or range, naming the spec", () => {
    expect(() => unpackFor(floats([], 1), t.float64(), "x")).toThrow(
      refusal("dtype", '"x": expected a float64 tensor, received a float32 tensor'),
    );
    expect(() => unpackFor(floats([1], 1), t.float32(), "x")).toThrow(
      refusal("shape", "give a scalar"),
    );
    expect(() => unpackFor(floats([3], 1, 2, 3), t.float32([2]), "x")).toThrow(
      refusal("shape", "shape [2]"),
    );
    expect(() => unpackFor(floats([-1], 1), t.float32([2]), "x")).toThrow(
      refusal("shape", "shape [1]"),
    );
    expect(() => unpackFor(floats([], 2), t.float32({ max: 1 }), "x")).toThrow(
      refusal("bounds", "at most 1"),
    );
    expect(() => unpackFor({ dtype: "unset", shape: [], data: [] }, t.bool(), "x")).toThrow(
      refusal("dtype", "a bool tensor, received a tensor without payload"),
    );
    const two = floats([2], 1, 2);
    expect(unpackFor(two, t.float32([2]), "x", { maxElements: 2 })).toBe(two);
    expect(() => unpackFor(two, t.float32([2]), "x", { maxElements: 1 })).toThrow(
      refusal("limit", "(limit: maxElements)"),
    );
  });
});

describe("behaviour 17: a single element that stands for all elements", () => {
  const packed = floats([3], 5);

  test.each([
    ["the last max", t.float32([3], { max: [9, 9, 4] }), "element [2] at most 4"],
    ["the last min", t.float32([3], { min: [0, 0, 6] }), "element [2] at least 6"],
    ["the second max", t.float32([3], { min: 0, max: [9, 4, 9] }), "element [1] from 0 to 4"],
    ["the second min", t.float32([3], { min: [0, 6, 0], max: 9 }), "element [1] from 6 to 9"],
    ["the first max", t.float32([3], { max: [4, 9, 9] }), "element [0] at most 4"],
  ])("is refused beyond %s", (_, spec, text) => {
    const error = refusal("bounds", `"x": expected ${text}, received 5`);
    expect(() => unpackFor(packed, spec, "x")).toThrow(error);
    expect(() => packFor(packed, spec, "x")).toThrow(error);
    expect(() => packFor(5, spec, "x")).toThrow(error);
  });

  test("is accepted within the bounds of every element", () => {
    const spec = t.float32([3], { min: [0, 5, 0], max: [9, 9, 5] });
    expect(unpackFor(packed, spec, "x")).toEqual(floats([3], 5, 5, 5));
  });
});

describe("behaviour 16: the bounds of a variable-length spec", () => {
  const spec = t.int32([-1, 2], { min: 0, max: 5 });

  test("apply to each element that arrives", () => {
    const packed = { dtype: "int32", shape: [-1, 2], data: Int32Array.of(0, 5, 5, 6) } as const;
    expect(() => unpackFor(packed, spec, "x")).toThrow(
      refusal("bounds", '"x": expected element [1, 1] from 0 to 5, received 6'),
    );
    expect(unpackFor({ ...packed, data: Int32Array.of(0, 5) }, spec, "x").shape).toEqual([1, 2]);
  });

  test("accept an empty tensor", () => {
    const none = { dtype: "int32", shape: [0, 2], data: new Int32Array(0) } as const;
    expect(unpackFor(none, spec, "x")).toBe(none);
  });
});

describe("values", () => {
  test("the value of a scalar spec is a scalar, and of any other spec the tensor", () => {
    expect(toValue(pack(true), t.bool())).toBe(true);
    expect(toValue(pack(5n), t.int64())).toBe(5n);
    const whole = unpack(floats([1], 1));
    expect(toValue(whole, t.float32([1]))).toBe(whole);
  });

  test("the only element of any shape is a scalar", () => {
    expect(toScalar(pack([[false]]))).toBe(false);
    expect(() => toScalar(pack([1, 2]))).toThrow(refusal("shape", "2 of shape [2]"));
  });

  test("nested arrays are as deep as the shape", () => {
    expect(toNested(unpack(floats([2, 2], 1, 2, 3, 4)))).toEqual([
      [1, 2],
      [3, 4],
    ]);
    expect(toNested(pack(true))).toBe(true);
    expect(toNested(tensor("int8", [2, 0], new Int8Array(0)))).toEqual([[], []]);
  });
});

describe("tensor", () => {
  test("makes a record of data that fits", () => {
    const data = new Float32Array(6);
    expect(tensor("float32", [2, 3], data).data).toBe(data);
    expect(() => tensor("float32", [2], data)).toThrow(
      refusal("shape", "2 elements for shape [2]"),
    );
    expect(() => tensor("float32", [-1], data)).toThrow(refusal("shape", "not negative"));
    expect(() => tensor("float32", [1.5], data)).toThrow(refusal("shape", "integers"));
    expect(() => tensor("int8", [6], data as never)).toThrow(refusal("dtype", "Float32Array of 6"));
  });
});
