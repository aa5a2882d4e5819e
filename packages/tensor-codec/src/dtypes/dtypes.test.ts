// SPDX-License-Identifier: Apache-2.0
import { runInNewContext } from "node:vm";
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import {
  DataType,
  type EnvironmentStateType,
  TensorSchema,
  TensorSpec_ValueSchema,
  TensorSpecSchema,
} from "@dm-env-rpc/protocol";
import { describe, expect, test } from "vitest";
import { bitsOf, valuesOf } from "../../testing/bits.ts";
import { seeded } from "../../testing/mutate.ts";
import { encode } from "../../testing/steps.ts";
import { pack, packFor } from "../packing/pack.ts";
import { toNested, unpack, unpackFor } from "../packing/unpack.ts";
import { packSpec, unpackSpec } from "../proto/specs.ts";
import { dtypeOf, packTensor, unpackTensor } from "../proto/tensors.ts";
import { type PlainBuilder, t } from "../specs/build.ts";
import { fromDmEnvSpec, toDmEnvSpec } from "../specs/dm-env.ts";
import { sample } from "../specs/sample.ts";
import type { TensorSpec } from "../specs/spec.ts";
import { validate, zeros } from "../specs/spec-values.ts";
import type { Tensor } from "../tensors/tensor.ts";
import { encodedTypes } from "../wire/encodings/table.ts";
import { createResponseCodec, decodeTensor, encodeTensor } from "../wire/index.ts";
import type { ProcessResponse } from "../wire/messages.ts";
import {
  type DType,
  elementTypes,
  isNumeric,
  type NumericDType,
  type TensorData,
} from "./dtype.ts";

const everyDType = Object.values(elementTypes).map(({ dtype }) => dtype);
const numericDTypes = everyDType.filter(isNumeric);

/** Shapes of a scalar, of arrays that are written element by element or in one copy, and of an empty array. */
const shapes = [[], [1], [3], [2, 40], [0]];

const specOf = (dtype: DType, shape: readonly number[]): TensorSpec => ({ dtype, shape });

/** A few tensors of each shape, with values of every size and with small values. */
const tensorsOf = (dtype: DType): Tensor[] =>
  shapes.flatMap((shape) =>
    [specOf(dtype, shape), smallSpecOf(dtype, shape)].flatMap((spec) =>
      [1, 2, 3].map((seed) => sample(spec, seeded(seed)) as Tensor),
    ),
  );

function smallSpecOf(dtype: DType, shape: readonly number[]): TensorSpec {
  if (!isNumeric(dtype)) {
    return specOf(dtype, shape);
  }
  const isWide = elementTypes[dtype].kind === "bigint";
  return { dtype, shape, min: isWide ? 1n : 1, max: isWide ? 9n : 9 } as TensorSpec;
}

test("the table has the dtypes of the protocol, in their order", () => {
  const numbers = Object.values(DataType).filter(
    (number) => typeof number === "number" && number !== DataType.INVALID_DATA_TYPE,
  );
  expect(Object.values(elementTypes).map(({ dataType }) => dataType)).toEqual(numbers);
  for (const [name, { dtype, dataType, payload }] of Object.entries(elementTypes)) {
    expect(dtype).toBe(name);
    expect(dtypeOf(dataType)).toBe(dtype);
    expect(TensorSchema.field[payload].number).toBe(dataType);
    expect(TensorSchema.field[payload].oneof?.name).toBe("payload");
    const bound = TensorSpec_ValueSchema.fields.find(({ localName }) => localName === payload);
    expect(bound?.message).toBe(isNumeric(dtype) ? TensorSchema.field[payload].message : undefined);
  }
});

describe.each(everyDType)("%s", (dtype) => {
  const { allocate, holds, bytes } = elementTypes[dtype];
  const { encoding } = encodedTypes[dtype];

  test("allocates an array that holds its elements", () => {
    const data = allocate(2);
    expect(data).toHaveLength(2);
    expect(holds(data)).toBe(true);
    expect(holds(new DataView(new ArrayBuffer(8)))).toBe(false);
    if (ArrayBuffer.isView(data)) {
      expect(data.byteLength).toBe(2 * bytes);
    } else {
      expect(bytes).toBe(0);
    }
    const spec = specOf(dtype, [2]);
    expect(zeros(spec)).toEqual({ dtype, shape: [2], data });
  });

  test("has a builder", () => {
    const build: PlainBuilder<DType> = t[dtype];
    expect(build()).toEqual(specOf(dtype, []));
    expect(build([2, -1])).toEqual(specOf(dtype, [2, -1]));
  });

  test("packs values that unpack unchanged", () => {
    for (const tensor of tensorsOf(dtype)) {
      const spec = specOf(dtype, tensor.shape);
      validate(tensor, spec);
      expect(bitsOf(packFor(tensor, spec, "x"))).toEqual(bitsOf(tensor));
      expect(bitsOf(packFor(toNested(tensor), spec, "x"))).toEqual(bitsOf(tensor));
      expect(bitsOf(unpackFor(tensor, spec, "x"))).toEqual(bitsOf(tensor));
    }
    const [one] = tensorsOf(dtype) as [Tensor];
    const twice = unpack({ ...one, shape: [2] } as Tensor);
    expect(toNested(twice)).toEqual([toNested(one), toNested(one)]);
    expect(pack(twice, { compress: true }).data).toEqual(one.data);
    expect(() => packFor(Symbol("none"), specOf(dtype, []), "x")).toThrow('"x"');
  });

  test("survives the round trip through bytes, as in the generated code", () => {
    for (const tensor of tensorsOf(dtype)) {
      const encoded = encodeTensor(tensor);
      expect(bitsOf(decodeTensor(encoded))).toEqual(bitsOf(tensor));
      expect(bitsOf(decodeTensor(encoded, { copy: true }))).toEqual(bitsOf(tensor));
      const message = packTensor(tensor);
      expect(toBinary(TensorSchema, message)).toEqual(encoded);
      expect(valuesOf(unpackTensor(fromBinary(TensorSchema, encoded)))).toEqual(valuesOf(tensor));
    }
  });

  test("encodes typed arrays of another realm to the same bytes", () => {
    const madeElsewhere: (name: string, elements: TensorData) => TensorData = runInNewContext(
      "(name, elements) => globalThis[name].from(elements)",
    );
    for (const tensor of tensorsOf(dtype)) {
      const { data } = tensor;
      const name = ArrayBuffer.isView(data) ? data[Symbol.toStringTag] : "Array";
      const foreign = madeElsewhere(name, data);
      expect(foreign).not.toBeInstanceOf(data.constructor);
      const value = { ...tensor, data: foreign } as Tensor;
      const packed = packFor(value, specOf(dtype, tensor.shape), "x");
      expect(bitsOf(decodeTensor(encodeTensor(packed)))).toEqual(bitsOf(tensor));
    }
  });

  test("survives the round trip in steps with new and with known layouts", () => {
    for (const borrowScalars of [false, true]) {
      const codec = createResponseCodec({ borrowScalars });
      for (const tensor of [...tensorsOf(dtype), ...tensorsOf(dtype)]) {
        const step: ProcessResponse = {
          case: "step",
          value: { state: 1 as EnvironmentStateType, observations: [{ uid: 1, tensor }] },
        };
        const message = encode(codec, step);
        expect(message).toEqual(encode(createResponseCodec(), step));
        expect(codec.read(message, 0, message.length)).toEqual(step);
      }
    }
  });

  test("has a spec in the protocol and in dm_env", () => {
    const spec = specOf(dtype, [2]);
    const message = toBinary(TensorSpecSchema, packSpec("x", spec));
    expect(unpackSpec(fromBinary(TensorSpecSchema, message))).toEqual({ name: "x", spec });
    expect(fromDmEnvSpec(toDmEnvSpec("x", spec))).toEqual(spec);
  });

  test("declares the encoded width of its elements correctly", () => {
    if (!encoding.packed) {
      return;
    }
    for (const { data } of tensorsOf(dtype)) {
      if (encoding.width > 0) {
        expect(encoding.size(data)).toBe(data.length * encoding.width);
      }
    }
  });
});

describe.each(numericDTypes)("the bounds of %s", (dtype: NumericDType) => {
  const [one, two, three] = elementTypes[dtype].kind === "bigint" ? [1n, 2n, 3n] : [1, 2, 3];
  const build = t[dtype] as (bounds: object) => TensorSpec;

  test("limit its elements", () => {
    const spec = build({ min: one, max: two });
    expect(packFor(two, spec, "x").data[0]).toBe(two);
    expect(() => packFor(three, spec, "x")).toThrow("from 1");
    expect(() => build({ min: two, max: one })).toThrow("min at most max");
    expect(() => build({ min: "1" })).toThrow(`as min of`);
    const limits = elementTypes[dtype].range;
    if (limits !== undefined) {
      expect(packFor(limits.max, specOf(dtype, []), "x").data[0]).toBe(limits.max);
      expect(packFor(limits.min, specOf(dtype, []), "x").data[0]).toBe(limits.min);
    }
  });

  test("survive the round trip through bytes", () => {
    const spec = build({ min: one, max: two });
    const message = toBinary(TensorSpecSchema, packSpec("x", spec));
    expect(unpackSpec(fromBinary(TensorSpecSchema, message)).spec).toEqual(spec);
  });
});
