// SPDX-License-Identifier: Apache-2.0
import { type DType, dtypes, packFor, type TensorSpec } from "@dm-env-rpc/tensor-codec";
import fc from "fast-check";
import { expect, it } from "vitest";
import { ScalarTensor } from "./scalar-tensor.ts";

const names = Object.keys(dtypes) as DType[];
const numbers = ["float32", "float64", "int8", "int32", "uint8", "uint32"];

function packed(value: unknown, spec: TensorSpec): unknown {
  try {
    return packFor(value, spec, "x");
  } catch {
    return undefined;
  }
}

it("`pack` agrees with `packFor`, and returns undefined for values that `packFor` refuses or converts", () => {
  const edges = [-129, -128, 127, 255, 256, 2 ** 31, 2 ** 32 - 1, 2 ** 32, -0, 1.5, 1e300];
  const values = fc.oneof(
    fc.constantFrom<unknown>(...edges, Number.NaN, Number.POSITIVE_INFINITY, "1", 1n, true),
    fc.constantFrom<unknown>(undefined, null, [1], Int8Array.of(1), {}),
    fc.integer({ min: -300, max: 300 }),
    fc.double(),
  );
  fc.assert(
    fc.property(fc.constantFrom(...names), values, (dtype, value) => {
      const spec: TensorSpec = { dtype, shape: [] };
      const scalar = ScalarTensor.for(spec);
      expect(scalar !== undefined).toBe(numbers.includes(dtype));
      const tensor = scalar?.pack(value);
      if (tensor !== undefined) {
        expect(tensor).toEqual(packed(value, spec));
      } else if (typeof value === "number" && scalar) {
        expect(packed(value, spec)).toBe(undefined);
      }
    }),
  );
});

it("a spec with bounds or a shape has no scalar tensor", () => {
  expect(ScalarTensor.for({ dtype: "int32", shape: [1] })).toBeUndefined();
  expect(ScalarTensor.for({ dtype: "int32", shape: [], min: 0 })).toBeUndefined();
  expect(ScalarTensor.for({ dtype: "int32", shape: [], max: 9 })).toBeUndefined();
});
