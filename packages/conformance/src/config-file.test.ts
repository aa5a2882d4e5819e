// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { parseConfig } from "./config-file.ts";

it("reads settings as values, or with their dtype", () => {
  const { create } = parseConfig(
    JSON.stringify({
      create: {
        plain: 3,
        seed: { uint64: "18446744073709551615" },
        rows: { int32: [1, 2] },
        map: { name: "meadow", size: { float32: 1.5 } },
      },
    }),
  );
  expect(create).toMatchObject({
    plain: 3,
    seed: { dtype: "uint64", shape: [], data: BigUint64Array.of(2n ** 64n - 1n) },
    rows: { dtype: "int32", shape: [2], data: Int32Array.of(1, 2) },
    map: { name: "meadow", size: { dtype: "float32", data: Float32Array.of(1.5) } },
  });
});
