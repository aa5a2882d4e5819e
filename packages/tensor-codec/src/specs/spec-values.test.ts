// SPDX-License-Identifier: Apache-2.0

import { create } from "@bufbuild/protobuf";
import { anyPack, StructSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { anyDType } from "../../testing/arbitraries.ts";
import { seeded } from "../../testing/mutate.ts";
import { dtypes, isNumeric } from "../dtypes/dtype.ts";
import { pack } from "../packing/pack.ts";
import { type Tensor, tensor } from "../tensors/tensor.ts";
import { t } from "./build.ts";
import { sample } from "./sample.ts";
import type { TensorSpec } from "./spec.ts";
import { clamp, equalSpecs, equals, validate, zeros } from "./spec-values.ts";

const refusal = (reason: string, text: string) =>
  expect.objectContaining({ name: "TensorError", reason, message: expect.stringContaining(text) });

/** Specs of every dtype, bounded or not, of scalars and arrays. */
const specs: fc.Arbitrary<TensorSpec> = fc
  .record({
    dtype: anyDType,
    shape: fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 2 }),
    bounded: fc.constantFrom("none", "min", "max", "both", "same"),
    low: fc.integer({ min: -100, max: 100 }),
    span: fc.nat(27),
  })
  .map(({ dtype, shape, bounded, low, span }) => {
    if (!isNumeric(dtype)) {
      return { dtype, shape };
    }
    const { kind, range } = dtypes[dtype];
    const isUnsigned = range !== undefined && range.min >= 0;
    const from = isUnsigned ? Math.abs(low) : low;
    const scalar = (value: number) => (kind === "bigint" ? BigInt(value) : value);
    return {
      dtype,
      shape,
      ...(bounded !== "none" && bounded !== "max" && { min: scalar(from) }),
      ...(bounded !== "none" &&
        bounded !== "min" && { max: scalar(bounded === "same" ? from : from + span) }),
    } as TensorSpec;
  });

describe("sample, zeros and clamp", () => {
  test("samples are valid for the spec", () => {
    fc.assert(
      fc.property(specs, fc.nat(), (spec, seed) => {
        validate(sample(spec, seeded(seed)), spec, "x");
      }),
    );
  });

  test("the same random numbers sample the same tensor", () => {
    fc.assert(
      fc.property(specs, fc.nat(), (spec, seed) => {
        expect(sample(spec, seeded(seed))).toEqual(sample(spec, seeded(seed)));
      }),
    );
  });

  test("zeros are valid for the spec", () => {
    fc.assert(fc.property(specs, (spec) => validate(zeros(spec), spec, "x")));
    expect(zeros(t.int8({ min: 2, max: 3 })).data[0]).toBe(2);
    expect(zeros(t.int64({ min: -3n, max: -2n })).data[0]).toBe(-2n);
    expect(zeros(t.float32([2, -1])).shape).toEqual([2, 0]);
  });

  test("clamped tensors are valid for the spec", () => {
    fc.assert(
      fc.property(specs, fc.nat(), (spec, seed) => {
        const { dtype, shape } = spec;
        const loose = sample({ dtype, shape }, seeded(seed));
        validate(clamp(loose, spec), spec, "x");
      }),
    );
  });

  test("discrete samples reach both ends and stay within them", () => {
    const random = seeded(1);
    const seen = new Set(
      Array.from({ length: 200 }, () => sample(t.discrete(3), random).data[0] as number),
    );
    expect([...seen].sort()).toEqual([0, 1, 2]);
  });

  test("samples are in bounds if the random source returns only its smallest or largest value", () => {
    for (const at of [0, 1 - 2 ** -53]) {
      const random = () => at;
      for (const spec of [
        t.float32({ min: -1, max: 0.1 }),
        t.float64({ min: -Number.MAX_VALUE, max: Number.MAX_VALUE }),
        t.float64({ min: 1 }),
        t.float64({ max: 1 }),
        t.float64(),
        t.int32(),
        t.uint32(),
        t.int64(),
        t.uint64(),
      ]) {
        const drawn = sample(spec as TensorSpec, random);
        validate(drawn, spec as TensorSpec);
        expect(Number.isFinite(Number(drawn.data[0]))).toBe(true);
      }
    }
  });

  test("a variable dimension and strings are at most maxLength long", () => {
    const random = seeded(3);
    for (let i = 0; i < 50; i++) {
      const words = sample(t.string([-1]), random, { maxLength: 2 });
      expect(words.data.length).toBeLessThanOrEqual(2);
      for (const word of words.data) {
        expect(word).toMatch(/^[a-z]{0,2}$/);
      }
    }
  });

  test("clamping keeps values in bounds, and NaN, and copies only what it changes", () => {
    const spec = t.float32([3], { min: 0, max: 1 });
    const fine = tensor("float32", [3], new Float32Array([0, 0.5, Number.NaN]));
    expect(clamp(fine, spec)).toBe(fine);
    const wild = tensor("float32", [3], new Float32Array([-1, 0.5, 2]));
    expect(clamp(wild, spec).data).toEqual(new Float32Array([0, 0.5, 1]));
    expect(wild.data[0]).toBe(-1);
    expect(clamp(wild, t.float32([3], { max: [-2, 0, 9] })).data).toEqual(
      new Float32Array([-2, 0, 2]),
    );
  });
});

describe("validate", () => {
  test("behaviour 17: names the dtype, the shape or the element that is wrong", () => {
    const spec = t.uint8([2, 2], { max: 9 });
    const of = (...values: number[]) => tensor("uint8", [2, 2], Uint8Array.from(values));
    validate(of(0, 1, 2, 9), spec, "x");
    expect(() => validate(of(0, 1, 10, 2), spec, "x")).toThrow(
      refusal("bounds", '"x": expected element [1, 0] at most 9, received 10'),
    );
    expect(() => validate(pack(1) as Tensor, spec, "x")).toThrow(
      refusal("dtype", "a uint8 tensor"),
    );
    expect(() => validate(tensor("uint8", [4], new Uint8Array(4)), spec)).toThrow(
      refusal("shape", "expected shape [2, 2], received shape [4]"),
    );
  });

  test("the data of a bool is 0 or 1", () => {
    const odd = { dtype: "bool", shape: [2], data: new Uint8Array([1, 7]) } as const;
    expect(() => validate(odd, t.bool([2]))).toThrow(refusal("value", "0 or 1 as element [1]"));
  });

  test("a tensor has as many elements as its shape", () => {
    const short = { dtype: "int8", shape: [2, 2], data: new Int8Array(3) } as const;
    expect(() => validate(short, t.int8([2, 2]))).toThrow(refusal("shape", "received 3"));
  });
});

describe("equals", () => {
  test("tensors are equal in dtype, shape and elements", () => {
    const any = (seconds: string) =>
      pack(
        anyPack(
          StructSchema,
          create(StructSchema, {
            fields: { [seconds]: { kind: { case: "boolValue", value: true } } },
          }),
        ),
      );
    expect(equals(pack([1, Number.NaN]), pack([1, Number.NaN]))).toBe(true);
    expect(equals(pack([1, Number.NaN]), pack([1, 1]))).toBe(false);
    expect(equals(pack([1, 1]), pack([1, Number.NaN]))).toBe(false);
    expect(equals(pack([0]), pack([-0]))).toBe(true);
    expect(equals(pack([1]), pack([2]))).toBe(false);
    expect(equals(pack([1]), pack(1))).toBe(false);
    expect(equals(pack(1), pack(1, { dtype: "float32" }))).toBe(false);
    expect(equals(any("a"), any("a"))).toBe(true);
    expect(equals(any("a"), any("b"))).toBe(false);
    expect(equals(any("a"), any("ab"))).toBe(false);
    expect(equals(any("ab"), any("a"))).toBe(false);
    expect(equals(pack(1, { shape: [2] }), pack([1, 1]))).toBe(false);
    expect(equals(pack(["a"]), pack(["b"]))).toBe(false);
  });

  test("specs are equal in dtype, shape and bounds", () => {
    expect(equalSpecs(t.float32([2], { min: 0 }), t.float32([2], { min: 0 }))).toBe(true);
    expect(equalSpecs(t.float32([2], { min: [0, 1] }), t.float32([2], { min: [0, 1] }))).toBe(true);
    expect(equalSpecs({ dtype: "float32", shape: [], max: 0.1 }, t.float32({ max: 0.1 }))).toBe(
      true,
    );
    expect(equalSpecs(t.float32([2], { min: [0, 1] }), t.float32([2], { min: 0 }))).toBe(false);
    expect(equalSpecs(t.float32({ min: 0 }), t.float32())).toBe(false);
    expect(equalSpecs(t.float32(), t.float64())).toBe(false);
    expect(equalSpecs(t.float32([1]), t.float32())).toBe(false);
  });
});
