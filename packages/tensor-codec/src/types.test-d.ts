// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import { describe, expectTypeOf, test } from "vitest";
import {
  type Bound,
  type PackablesOf,
  type PackedTensor,
  pack,
  packFor,
  type Scalar,
  sample,
  type Tensor,
  type TensorSpec,
  t,
  tensor,
  toNested,
  toScalar,
  toValue,
  unpack,
  unpackFor,
  type ValuesOf,
} from "./index.ts";
import type { ProcessRequest } from "./wire/index.ts";

describe("builders", () => {
  test("a spec carries its dtype and its shape", () => {
    expectTypeOf(t.float32()).toEqualTypeOf<TensorSpec<"float32", readonly []>>();
    expectTypeOf(t.int8({ min: 0, max: 4 })).toEqualTypeOf<TensorSpec<"int8", readonly []>>();
    expectTypeOf(t.uint8([11, 11, 3])).toEqualTypeOf<TensorSpec<"uint8", readonly [11, 11, 3]>>();
    expectTypeOf(t.string([-1])).toEqualTypeOf<TensorSpec<"string", readonly [-1]>>();
    expectTypeOf(t.bool()).toEqualTypeOf<TensorSpec<"bool", readonly []>>();
    expectTypeOf(t.discrete(4)).toEqualTypeOf<TensorSpec<"int32", readonly []>>();
    expectTypeOf(t.discrete(4, "uint64")).toEqualTypeOf<TensorSpec<"uint64", readonly []>>();
  });

  test("an unknown shape is a Shape", () => {
    const shape: number[] = [1, 2];
    expectTypeOf(t.float32(shape)).toEqualTypeOf<TensorSpec<"float32", number[]>>();
  });

  test("bounds are of the dtype", () => {
    expectTypeOf<Bound<"int64">>().toEqualTypeOf<bigint | BigInt64Array>();
    expectTypeOf<Bound<"bool">>().toBeNever();
    // @ts-expect-error a bigint's bound is a bigint
    expectTypeOf(t.int64).toBeCallableWith({ min: 1 });
    // @ts-expect-error a number's bound is a number
    expectTypeOf(t.int32).toBeCallableWith({ min: 1n });
    // @ts-expect-error strings have no bounds
    expectTypeOf(t.string).toBeCallableWith([2], { min: "a" });
    // @ts-expect-error floats are not discrete
    expectTypeOf(t.discrete).toBeCallableWith(2, "float32");
    expectTypeOf(t.float32).toBeCallableWith([2], { min: [0, 1], max: new Float32Array(2) });
  });

  test("every spec is a TensorSpec", () => {
    expectTypeOf(t.uint8([2])).toExtend<TensorSpec>();
    expectTypeOf(t.int64({ min: 1n })).toExtend<TensorSpec>();
    expectTypeOf(t.proto()).toExtend<TensorSpec>();
  });
});

const specs = {
  move: t.discrete(4),
  seed: t.uint64(),
  done: t.bool(),
  arm: { joints: t.float32([7]), tags: t.string([-1]), any: t.proto() },
};

test("values are scalars if the shape is empty, else tensors, and nest like the specs", () => {
  expectTypeOf<ValuesOf<typeof specs>>().toEqualTypeOf<{
    move: number;
    seed: bigint;
    done: boolean;
    arm: { joints: Tensor<"float32">; tags: Tensor<"string">; any: Any };
  }>();
});

test("values packed for a spec have its dtype", () => {
  type Packables = PackablesOf<typeof specs>;
  expectTypeOf<3>().toExtend<Packables["move"]>();
  expectTypeOf<bigint>().not.toExtend<Packables["move"]>();
  expectTypeOf<number>().not.toExtend<Packables["seed"]>();
  expectTypeOf<Float32Array>().toExtend<Packables["arm"]["joints"]>();
  expectTypeOf<Float64Array>().not.toExtend<Packables["arm"]["joints"]>();
  expectTypeOf<number[][]>().toExtend<Packables["arm"]["joints"]>();
  expectTypeOf<string[]>().toExtend<Packables["arm"]["tags"]>();
  expectTypeOf<Tensor<"float32">>().toExtend<Packables["arm"]["joints"]>();
  expectTypeOf<Tensor<"int8">>().not.toExtend<Packables["arm"]["joints"]>();
});

describe("pack and unpack", () => {
  test("the dtype is the value's, or the given one", () => {
    expectTypeOf(pack(1)).toEqualTypeOf<Tensor<"float64">>();
    expectTypeOf(pack([[1n]])).toEqualTypeOf<Tensor<"int64">>();
    expectTypeOf(pack(true)).toEqualTypeOf<Tensor<"bool">>();
    expectTypeOf(pack(["a", "b"])).toEqualTypeOf<Tensor<"string">>();
    expectTypeOf(pack(new Float32Array(1))).toEqualTypeOf<Tensor<"float32">>();
    expectTypeOf(pack(new Uint8ClampedArray(1))).toEqualTypeOf<Tensor<"uint8">>();
    expectTypeOf(pack(1, { dtype: "int8" })).toEqualTypeOf<Tensor<"int8">>();
    expectTypeOf(pack([1], { compress: true })).toEqualTypeOf<PackedTensor<"float64">>();
    expectTypeOf(pack({} as Tensor<"uint32">)).toEqualTypeOf<Tensor<"uint32">>();
  });

  test("a PackedTensor is not a Tensor, but a Tensor is a PackedTensor", () => {
    expectTypeOf<Tensor<"int8">>().toExtend<PackedTensor<"int8">>();
    expectTypeOf<PackedTensor<"int8">>().not.toExtend<Tensor<"int8">>();
    expectTypeOf<Tensor>().toExtend<PackedTensor>();
    expectTypeOf<PackedTensor>().not.toExtend<Tensor>();
    expectTypeOf(unpack({} as PackedTensor<"int8">)).toEqualTypeOf<Tensor<"int8">>();
    // @ts-expect-error one element may stand for all: unpack it first
    toNested({} as PackedTensor<"int8">);
    const record = { dtype: "int8", shape: [1], data: new Int8Array(1) } as const;
    expectTypeOf(record).toExtend<Tensor<"int8">>();
    expectTypeOf(record).toExtend<PackedTensor<"int8">>();
  });

  test("a value becomes a PackedTensor if its shape or its number of elements may change", () => {
    expectTypeOf(pack(1, { shape: [-1] })).toEqualTypeOf<PackedTensor<"float64">>();
    expectTypeOf(pack(1, { dtype: "int8", shape: [2] })).toEqualTypeOf<PackedTensor<"int8">>();
    expectTypeOf(pack({} as PackedTensor<"int8">)).toEqualTypeOf<PackedTensor<"int8">>();
    expectTypeOf(pack(1, { name: "x" })).toEqualTypeOf<Tensor<"float64">>();
    const options = { dtype: "int8", compress: true } as const;
    expectTypeOf(pack(1, options)).toEqualTypeOf<PackedTensor<"int8">>();
  });

  test("a value packed and unpacked for a spec has its dtype", () => {
    expectTypeOf(packFor([1], t.float32([1]), "x")).toEqualTypeOf<PackedTensor<"float32">>();
    expectTypeOf(unpackFor({} as PackedTensor, t.uint8([1]), "x")).toEqualTypeOf<Tensor<"uint8">>();
    expectTypeOf(packFor(1, {} as TensorSpec, "x")).toEqualTypeOf<PackedTensor>();
    expectTypeOf(unpackFor({} as PackedTensor, {} as TensorSpec, "x")).toEqualTypeOf<Tensor>();
  });

  test("an unpacked tensor keeps its dtype", () => {
    expectTypeOf(unpack(pack(1, { dtype: "int8" })).data).toEqualTypeOf<Int8Array>();
    expectTypeOf(toScalar(unpack(pack(1n)))).toEqualTypeOf<bigint>();
    expectTypeOf(toScalar(tensor("bool", [], new Uint8Array(1)))).toEqualTypeOf<boolean>();
    expectTypeOf(toNested(pack(["a"]))).toExtend<Scalar<"string"> | readonly unknown[]>();
    expectTypeOf(toValue({} as Tensor, t.float32())).toEqualTypeOf<number>();
    expectTypeOf(toValue({} as Tensor, t.float32([2]))).toEqualTypeOf<Tensor<"float32">>();
    expectTypeOf(sample(t.float32([2]), Math.random)).toEqualTypeOf<Tensor<"float32">>();
  });

  test("checking `dtype` narrows the type of a tensor", () => {
    const any = {} as Tensor;
    if (any.dtype === "int64") {
      expectTypeOf(any.data).toEqualTypeOf<BigInt64Array>();
    }
    // @ts-expect-error data is of the dtype
    tensor("float32", [1], new Float64Array(1));
  });
});

test("a request is narrowed by its case", () => {
  const request = {} as ProcessRequest;
  if (request.case === "joinWorld") {
    expectTypeOf(request.value.worldName).toEqualTypeOf<string>();
  }
  if (request.case === "step") {
    expectTypeOf(request.value.requestedObservations).toEqualTypeOf<readonly (number | bigint)[]>();
  }
});
