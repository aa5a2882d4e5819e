// SPDX-License-Identifier: Apache-2.0
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { ActionObservationSpecsSchema, TensorSpecSchema } from "@dm-env-rpc/protocol";
import { expect, test } from "vitest";
import { bitsOf } from "../../testing/bits.ts";
import { type Golden, golden, goldenBytes, type Meaning } from "../../testing/golden.ts";
import { encode } from "../../testing/steps.ts";
import { pack } from "../packing/pack.ts";
import { unpack } from "../packing/unpack.ts";
import { packSpec, unpackSpec, unpackSpecs } from "../proto/specs.ts";
import { t } from "../specs/build.ts";
import { toDmEnvSpec } from "../specs/dm-env.ts";
import type { Tensor } from "../tensors/tensor.ts";
import { createRequestCodec, createResponseCodec, decodeTensor, encodeTensor } from "./index.ts";
import type { MessageCodec } from "./messages.ts";

const named = (kind: Golden["kind"]) =>
  golden.filter((entry) => entry.kind === kind).map((entry) => [entry.name, entry] as const);

test.each(named("tensor"))("Python's bytes: %s", (_, { bytes, meaning }) => {
  const packed = decodeTensor(bytes);
  expect(shown(unpack(packed))).toEqual(meaning);
  expect(encodeTensor(packed)).toEqual(bytes);
});

function reencodes<T>(codec: MessageCodec<T>, bytes: Uint8Array): void {
  const read = codec.read(bytes, 0, bytes.length);
  expect(read).not.toMatchObject({ case: "malformed" });
  expect(encode(codec, read as T)).toEqual(bytes);
}

test.each(named("request"))("Python's bytes: %s", (_, { bytes }) => {
  reencodes(createRequestCodec(), bytes);
});

test.each(named("response"))("Python's bytes: %s", (_, { bytes }) => {
  reencodes(createResponseCodec(), bytes);
});

test.each(named("spec").filter(([name]) => !name.includes("one bound")))(
  "Python's bytes: %s",
  (_, { bytes }) => {
    const { name, spec } = unpackSpec(fromBinary(TensorSpecSchema, bytes));
    expect(toBinary(TensorSpecSchema, packSpec(name, spec))).toEqual(bytes);
  },
);

test("behaviour 16: Python's specs equal those of the builders", () => {
  const read = (name: string) =>
    unpackSpec(fromBinary(TensorSpecSchema, goldenBytes(`spec: ${name}`)));
  expect(read("discrete")).toEqual({ name: "move", spec: t.discrete(5, "int8") });
  expect(read("unbounded")).toEqual({ name: "score", spec: t.int64() });
  expect(read("bounded floats")).toEqual({
    name: "arm.joints",
    spec: t.float32([2, 3], { min: -1.5, max: 0.1 }),
  });
  expect(read("bounds of each")).toEqual({
    name: "each",
    spec: t.float64([3], { min: [0, -1, -2], max: [1, 2, 3] }),
  });
  expect(read("one bound of a float")).toEqual({ name: "speed", spec: t.float32({ min: 0 }) });
  expect(read("variable")).toEqual({ name: "words", spec: t.string([-1]) });
  expect(read("wide").spec).toEqual(t.uint64([2], { min: 1n, max: 2n ** 64n - 1n }));
});

test("behaviour 51: Python's dm_env specs equal ours", () => {
  const read = (name: string) => {
    const bytes = goldenBytes(`dm_env: ${name}`);
    const named = unpackSpec(fromBinary(TensorSpecSchema, bytes));
    return toDmEnvSpec(named.name, named.spec);
  };
  expect(read("array")).toEqual({ kind: "array", name: "plain", dtype: "float32", shape: [2] });
  expect(read("bounded")).toEqual({
    kind: "boundedArray",
    name: "bounded",
    dtype: "int32",
    shape: [2],
    minimum: -3,
    maximum: 3,
  });
  expect(read("discrete")).toEqual({
    kind: "discreteArray",
    name: "discrete",
    dtype: "int32",
    shape: [],
    numValues: 5,
  });
  expect(read("string")).toEqual({
    kind: "stringArray",
    name: "strings",
    dtype: "string",
    shape: [2],
  });
});

test("behaviour 18: Python's UIDs are exact", () => {
  const bytes = goldenBytes("request: step");
  const read = createRequestCodec().read(bytes, 0, bytes.length);
  expect(read).toMatchObject({
    case: "step",
    value: {
      requestedObservations: [0, 1, 127, 128, 2 ** 32, 2 ** 53 - 1, 2n ** 53n, 2n ** 64n - 1n],
    },
  });
  const specs = fromBinary(ActionObservationSpecsSchema, goldenBytes("specs: many"));
  const { actions, observations } = unpackSpecs(specs);
  expect([...actions.byUid.keys()]).toEqual([1, 2n ** 62n]);
  expect(observations.entries).toHaveLength(9);
});

test("behaviour 20: the same tensors are compressed as in Python", () => {
  const full = { dtype: "int32", shape: [20, 30], data: new Int32Array(600).fill(7) } as const;
  expect(encodeTensor(pack(full, { compress: true }))).toEqual(goldenBytes("tensor: compressed"));
});

/** A tensor in the form of the golden file. */
function shown(tensor: Tensor): Meaning {
  const { dtype, shape } = tensor;
  if (tensor.dtype === "string") {
    return { dtype, shape, data: tensor.data };
  }
  if (tensor.dtype === "proto") {
    const data = tensor.data.map(({ typeUrl, value }) => ({
      typeUrl,
      value: Buffer.from(value).toString("hex"),
    }));
    return { dtype, shape, data };
  }
  return bitsOf(tensor) as Meaning;
}
