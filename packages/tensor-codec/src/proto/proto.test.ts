// SPDX-License-Identifier: Apache-2.0
import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  DataType,
  TensorSchema,
  type TensorSpec_Value,
  TensorSpec_ValueSchema,
  TensorSpecSchema,
} from "@dm-env-rpc/protocol";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { tensors } from "../../testing/arbitraries.ts";
import { valuesOf } from "../../testing/bits.ts";
import { t } from "../specs/build.ts";
import type { TensorSpec } from "../specs/spec.ts";
import { packSettings } from "./settings.ts";
import { specTable, tableOf } from "./spec-table.ts";
import { packSpec, packSpecs, unpackSpec, unpackSpecs } from "./specs.ts";
import { packTensor, unpackTensor } from "./tensors.ts";

const refusal = (reason: string, text: string) =>
  expect.objectContaining({ name: "TensorError", reason, message: expect.stringContaining(text) });

describe("tensors and generated messages", () => {
  test("a tensor survives the round trip through a message", () => {
    fc.assert(
      fc.property(tensors, (tensor) => {
        const message = fromBinary(TensorSchema, toBinary(TensorSchema, packTensor(tensor)));
        expect(valuesOf(unpackTensor(message))).toEqual(valuesOf(tensor));
      }),
    );
  });

  test("a message without payload is not a tensor", () => {
    expect(() => unpackTensor(create(TensorSchema))).toThrow(refusal("dtype", "payload"));
  });

  test("behaviour 13: a message with invalid elements is refused, not cast", () => {
    const message = create(TensorSchema, {
      payload: { case: "int32s", value: { array: [1, 2.5] } },
    });
    expect(() => unpackTensor(message)).toThrow(refusal("value", "an integer as element [1]"));
  });
});

describe("settings", () => {
  test("nest, and are packed for their specs or by their own type", () => {
    const packed = packSettings(
      { seed: 7n, maze: { width: 3, name: "a" }, left: undefined },
      { seed: t.uint64(), maze: { width: t.int32({ min: 1, max: 9 }) } },
    );
    expect(Object.keys(packed)).toEqual(["seed", "maze.width", "maze.name"]);
    expect(packed["seed"]?.payload.case).toBe("uint64s");
    expect(packed["maze.width"]?.payload).toMatchObject({ case: "int32s", value: { array: [3] } });
    expect(packed["maze.name"]?.payload.case).toBe("strings");
  });

  test("behaviour 21: a bad setting is an error that names it", () => {
    const specs = { maze: { width: t.int32({ min: 1, max: 9 }) } };
    expect(() => packSettings({ maze: { width: 10 } }, specs)).toThrow(
      refusal("bounds", '"maze.width": expected the value from 1 to 9'),
    );
    expect(() => packSettings({ a: [[1], [2, 3]] })).toThrow(refusal("ragged", '"a"'));
    expect(() => packSettings({ "a.b": 1 })).toThrow(refusal("name", '"a.b"'));
    expect(packSettings({ "a.b": 1 }, {}, { allowDots: true })).toHaveProperty(["a.b"]);
  });

  test("may have any name", () => {
    const packed = packSettings(JSON.parse('{"__proto__": 1, "constructor": 2}'));
    expect(Object.keys(packed)).toEqual(["__proto__", "constructor"]);
  });
});

describe("specs and generated messages", () => {
  test("a spec survives the round trip through bytes", () => {
    const specs: Record<string, TensorSpec> = {
      plain: t.float32([2, 3]),
      variable: t.string([-1, 2]),
      "arm.both": t.int8({ min: -1, max: 4 }),
      each: t.float64([2], { min: [0, -1], max: 3 }),
      wide: t.uint64([2], { min: [0n, 2n ** 63n], max: 2n ** 64n - 1n }),
      infinite: t.float32([1], { min: Number.NEGATIVE_INFINITY, max: 0.1 }),
      bool: t.bool(),
      any: t.proto([1]),
      "all of uint8": t.uint8({ min: 0, max: 255 }),
      "int64 from 0": t.int64({ min: 0n, max: 2n ** 63n - 1n }),
      "any number within bounds": t.int32([-1], { min: 0, max: 5 }),
    };
    for (const [name, spec] of Object.entries(specs)) {
      const bytes = toBinary(TensorSpecSchema, packSpec(name, spec));
      expect(unpackSpec(fromBinary(TensorSpecSchema, bytes))).toEqual({ name, spec });
    }
  });

  test("behaviour 16: undeclared bounds are not sent", () => {
    const message = packSpec("x", t.int8());
    expect(message.min).toBeUndefined();
    expect(message.max).toBeUndefined();
  });

  test("behaviour 16: an integer's only bound gets the other from the dtype, a float's does not", () => {
    expect(unpackSpec(packSpec("x", t.int8({ max: 4 }))).spec).toEqual(
      t.int8({ min: -128, max: 4 }),
    );
    expect(unpackSpec(packSpec("x", t.uint64({ min: 4n }))).spec).toEqual(
      t.uint64({ min: 4n, max: 2n ** 64n - 1n }),
    );
    expect(packSpec("x", t.float32({ max: 4 })).min).toBeUndefined();
  });

  test("behaviour 16: a spec that the builders refuse is not packed, and the error names it", () => {
    const variable: TensorSpec = { dtype: "int8", shape: [-1], max: new Int8Array(2) };
    expect(() => packSpec("x", variable)).toThrow(
      refusal("spec", '"x": expected one max for all elements of shape [-1], received 2'),
    );
    expect(() =>
      packSpec("x", { dtype: "uint8", shape: [3], min: new Uint8Array(2), max: 4 }),
    ).toThrow(refusal("spec", '"x": expected one min for all elements or 3 for shape [3]'));
    expect(() => packSpec("x", { dtype: "bool", shape: [], min: 0 } as never)).toThrow(
      refusal("spec", "no bounds on a bool spec"),
    );
  });

  const withBounds = (dtype: DataType, shape: number[], min: TensorSpec_Value["payload"]) =>
    create(TensorSpecSchema, {
      name: "x",
      dtype,
      shape,
      min: create(TensorSpec_ValueSchema, { payload: min } as never),
    });

  test("behaviour 16: bounds on a variable-length spec are read", () => {
    const message = withBounds(DataType.INT8, [-1], { case: "int8", value: 3 });
    expect(unpackSpec(message).spec).toEqual({ dtype: "int8", shape: [-1], min: 3 });
  });

  test.each([
    [DataType.FLOAT, "float", 1.5, "float32"],
    [DataType.DOUBLE, "double", 1.5, "float64"],
    [DataType.INT32, "int32", -3, "int32"],
    [DataType.INT64, "int64", -3n, "int64"],
    [DataType.UINT32, "uint32", 3, "uint32"],
    [DataType.UINT64, "uint64", 3n, "uint64"],
    [DataType.INT8, "int8", -3, "int8"],
    [DataType.UINT8, "uint8", 3, "uint8"],
  ] as const)(
    "behaviour 16: the legacy scalar bound of %s is read, as field %s",
    (type, name, value, dtype) => {
      const message = withBounds(type, [], { case: name, value } as TensorSpec_Value["payload"]);
      const bytes = toBinary(TensorSpecSchema, message);
      const { spec } = unpackSpec(fromBinary(TensorSpecSchema, bytes));
      expect(spec).toEqual({ dtype, shape: [], min: value });
    },
  );

  test("behaviour 16: legacy scalar bounds are never written", () => {
    expect(packSpec("x", t.int8({ min: 1, max: 2 })).min?.payload.case).toBe("int8s");
  });

  test("an unreadable spec is refused with its name", () => {
    const spec = (fields: object) => () =>
      unpackSpec(create(TensorSpecSchema, { name: "x", ...fields }));
    expect(spec({ dtype: DataType.INVALID_DATA_TYPE })).toThrow(
      refusal("spec", '"x": expected a spec with a dtype'),
    );
    expect(spec({ dtype: 99 })).toThrow(refusal("spec", "DataType 99"));
    expect(spec({ dtype: DataType.INT8, shape: [-1, -1] })).toThrow(
      refusal("spec", "at most one variable"),
    );
    const other = withBounds(DataType.INT8, [], { case: "int32", value: 3 });
    expect(() => unpackSpec(other)).toThrow(refusal("spec", "min of the spec's dtype, int8"));
    const wide = withBounds(DataType.INT8, [], { case: "int8", value: 300 });
    expect(() => unpackSpec(wide)).toThrow(refusal("spec", "an int8 as min"));
    const value = { $typeName: "dm_env_rpc.v1.Tensor.Int32Array" as const, array: [1, 2] };
    const many = withBounds(DataType.INT32, [3], { case: "int32s", value });
    expect(() => unpackSpec(many)).toThrow(refusal("spec", "min of one element or of 3"));
    const variable = withBounds(DataType.INT32, [-1], { case: "int32s", value });
    expect(() => unpackSpec(variable)).toThrow(
      refusal("spec", "min of one element for shape [-1]"),
    );
    const none = withBounds(DataType.INT32, [3], { case: undefined });
    expect(unpackSpec(none).spec).toEqual({ dtype: "int32", shape: [3] });
  });

  test("behaviour 18: tables of specs keep their UIDs, even beyond 2^53", () => {
    const actions = specTable({ move: t.discrete(4), "arm.grip": t.float32({ min: 0, max: 1 }) });
    const observations = tableOf([
      { uid: 2n ** 64n - 1n, name: "view", spec: t.uint8([4, 4]) },
      { uid: 7, name: "reward", spec: t.float64() },
    ]);
    const unpacked = unpackSpecs(packSpecs({ actions, observations }));
    expect(unpacked).toEqual({ actions, observations });
    expect(unpacked.observations.entries.map(({ uid }) => uid)).toEqual([7, 2n ** 64n - 1n]);
    expect(unpackSpecs(undefined).actions.entries).toEqual([]);
  });

  test("behaviour 15: a duplicate name within actions is refused with that name", () => {
    const message = packSpecs({ actions: tableOf([]), observations: tableOf([]) });
    message.actions["1"] = packSpec("move", t.bool());
    message.observations["1"] = packSpec("move", t.bool());
    expect(unpackSpecs(message).actions.entries).toHaveLength(1);
    message.actions["2"] = packSpec("move", t.bool());
    expect(() => unpackSpecs(message)).toThrow(
      refusal("name", '"move": expected names that are unique within actions'),
    );
  });
});
