// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { type DType, dtypes, type TensorData } from "../src/dtypes/dtype.ts";
import { elementCount, type Tensor } from "../src/tensors/tensor.ts";

export const everyDType: readonly DType[] = Object.values(dtypes).map(({ dtype }) => dtype);

export const anyDType: fc.Arbitrary<DType> = fc.constantFrom(...everyDType);

export const shapes: fc.Arbitrary<number[]> = fc.array(fc.nat(5), { maxLength: 4 });

const anys: fc.Arbitrary<Any> = fc.record({
  $typeName: fc.constant("google.protobuf.Any" as const),
  typeUrl: fc.string({ unit: "binary" }),
  value: fc.uint8Array({ maxLength: 20, size: "max" }),
});

/** Data of `length` elements: floats with any bits, including any NaN; integers of any size. */
export function data(dtype: DType, length: number): fc.Arbitrary<TensorData> {
  const { bytes } = dtypes[dtype];
  if (dtype === "string") {
    return fc.array(fc.string({ unit: "binary", maxLength: 40, size: "max" }), fixed(length));
  }
  if (dtype === "proto") {
    return fc.array(anys, fixed(length));
  }
  if (dtype === "bool") {
    return fc.array(fc.nat(1), fixed(length)).map((values) => Uint8Array.from(values));
  }
  const random = fc.uint8Array({ ...fixed(length * bytes) });
  const special = fc.array(fc.constantFrom(...(specials[dtype] ?? [0])), fixed(length));
  return fc.oneof(
    random.map((values) => {
      const array = dtypes[dtype].allocate(length) as Uint8Array;
      new Uint8Array(array.buffer).set(values);
      return array;
    }),
    special.map((values) => {
      const array = dtypes[dtype].allocate(length);
      for (const [i, value] of values.entries()) {
        array[i] = value as never;
      }
      return array;
    }),
  );
}

export function tensorsOf(dtype: DType): fc.Arbitrary<Tensor> {
  return shapes.chain((shape) =>
    data(dtype, elementCount(shape)).map(
      (elements) => ({ dtype, shape, data: elements }) as Tensor,
    ),
  );
}

export const tensors: fc.Arbitrary<Tensor> = anyDType.chain(tensorsOf);

/** UIDs of every length, also beyond 2^53. */
export const uids: fc.Arbitrary<number | bigint> = fc
  .oneof(
    fc.nat(20).map(BigInt),
    fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
    fc.constantFrom(2n ** 32n, 2n ** 53n - 1n, 2n ** 53n, 2n ** 64n - 1n, 127n, 128n),
  )
  .map((uid) => (uid <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(uid) : uid));

const fixed = (length: number) => ({ minLength: length, maxLength: length });

const floats = [
  0,
  -0,
  1,
  -1,
  0.1,
  1e-45,
  3.4028234663852886e38,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
];

const specials: Partial<Record<DType, readonly (number | bigint)[]>> = {
  float32: floats,
  float64: [...floats, Number.MAX_VALUE, Number.MIN_VALUE],
  int8: [0, 1, -1, 127, -128],
  uint8: [0, 1, 127, 128, 255],
  int32: [
    0, 1, -1, 127, 128, 16383, 16384, 2097151, 2097152, 268435455, 268435456, 2147483647,
    -2147483648,
  ],
  uint32: [0, 1, 127, 128, 268435456, 2147483648, 4294967295],
  int64: [
    0n,
    1n,
    -1n,
    127n,
    2n ** 31n,
    2n ** 32n,
    2n ** 35n,
    2n ** 56n,
    2n ** 62n,
    2n ** 63n - 1n,
    -(2n ** 63n),
  ],
  uint64: [0n, 1n, 128n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 49n, 2n ** 63n, 2n ** 64n - 1n],
};
