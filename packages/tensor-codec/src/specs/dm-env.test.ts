// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { t } from "./build.ts";
import { fromDmEnvSpec, toDmEnvSpec, toDmEnvSpecs } from "./dm-env.ts";
import type { TensorSpec } from "./spec.ts";
import { equalSpecs } from "./spec-values.ts";

test("behaviour 51: specs mirror the structure of the values, nested", () => {
  expect(
    toDmEnvSpecs({
      move: t.discrete(5),
      arm: { joints: t.float32([2], { min: -1, max: 1 }), names: t.string([2]) },
      view: t.uint8([4, 4, 3]),
    }),
  ).toEqual({
    move: { kind: "discreteArray", name: "move", dtype: "int32", shape: [], numValues: 5 },
    arm: {
      joints: {
        kind: "boundedArray",
        name: "arm.joints",
        dtype: "float32",
        shape: [2],
        minimum: -1,
        maximum: 1,
      },
      names: { kind: "stringArray", name: "arm.names", dtype: "string", shape: [2] },
    },
    view: { kind: "array", name: "view", dtype: "uint8", shape: [4, 4, 3] },
  });
});

test("behaviour 51: only a scalar integer from 0 to a declared maximum is discrete", () => {
  const kind = (spec: TensorSpec) => toDmEnvSpec("x", spec).kind;
  expect(kind(t.int64({ min: 0n, max: 9n }))).toBe("discreteArray");
  expect(toDmEnvSpec("x", t.int64({ min: 0n, max: 9n }))).toMatchObject({ numValues: 10n });
  expect(kind(t.uint8({ max: 9 }))).toBe("discreteArray");
  expect(kind(t.int8({ min: 1, max: 9 }))).toBe("boundedArray");
  expect(kind(t.int8([1], { min: 0, max: 9 }))).toBe("boundedArray");
  expect(kind(t.float32({ min: 0, max: 9 }))).toBe("boundedArray");
  expect(kind(t.bool())).toBe("array");
  expect(kind(t.proto())).toBe("array");
});

test("behaviour 51: an undeclared bound is the dtype's", () => {
  expect(toDmEnvSpec("x", t.int8({ max: 9 }))).toMatchObject({ minimum: -128, maximum: 9 });
  expect(toDmEnvSpec("x", t.float32({ max: 9 }))).toMatchObject({
    minimum: Number.NEGATIVE_INFINITY,
    maximum: 9,
  });
});

test("behaviour 51: a spec survives the round trip through dm_env's", () => {
  for (const spec of [
    t.discrete(5),
    t.discrete(5, "uint64"),
    t.int8({ min: -3, max: 3 }),
    t.int8({ max: 3 }),
    t.float32({ min: 0 }),
    t.float64([2], { min: [0, 1], max: 3 }),
    t.uint8([4, 4]),
    t.string([-1]),
    t.bool(),
    t.proto(),
  ] as TensorSpec[]) {
    const back = fromDmEnvSpec(toDmEnvSpec("x", spec));
    expect(equalSpecs(back, spec)).toBe(true);
  }
});

test("behaviour 51: bounds that exclude nothing are not declared", () => {
  expect(
    fromDmEnvSpec({
      kind: "boundedArray",
      name: "x",
      dtype: "uint8",
      shape: [],
      minimum: 0,
      maximum: 255,
    }),
  ).toEqual(t.uint8());
  expect(
    fromDmEnvSpec({
      kind: "boundedArray",
      name: "x",
      dtype: "float32",
      shape: [],
      minimum: Number.NEGATIVE_INFINITY,
      maximum: Number.POSITIVE_INFINITY,
    }),
  ).toEqual(t.float32());
});

test("an unsatisfiable dm_env spec is refused with its name", () => {
  expect(() =>
    fromDmEnvSpec({ kind: "discreteArray", name: "x", dtype: "int32", shape: [], numValues: 0 }),
  ).toThrow(/"x": expected min at most max/);
});
