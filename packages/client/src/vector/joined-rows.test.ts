// SPDX-License-Identifier: Apache-2.0
import { tensor } from "@dm-env-rpc/tensor-codec";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { rowsOf } from "./joined-rows.ts";

/** Some slots of a vector, ascending, and the elements of all slots. */
const cases = fc.integer({ min: 1, max: 6 }).chain((size) =>
  fc.record({
    size: fc.constant(size),
    slots: fc.subarray(
      Array.from({ length: size }, (_, slot) => slot),
      { minLength: 1 },
    ),
    width: fc.integer({ min: 1, max: 20 }),
  }),
);

describe("the rows of some slots", () => {
  test("are those of the slots, in order, for every kind of value", () => {
    fc.assert(
      fc.property(cases, ({ size, slots, width }) => {
        const all = Array.from({ length: size * width }, (_, i) => i);
        const own = slots.flatMap((slot) => all.slice(slot * width, (slot + 1) * width));
        const words = (numbers: number[]) => numbers.map((number) => `word ${number}`);
        const given = {
          flat: all,
          typed: Float64Array.from(all),
          wide: BigInt64Array.from(all, BigInt),
          arm: { at: tensor("int32", [size, width], Int32Array.from(all)) },
          text: tensor("string", [size, width], words(all)),
          same: 7,
        };
        expect(rowsOf(given, slots, size)).toEqual({
          flat: own,
          typed: Float64Array.from(own),
          wide: BigInt64Array.from(own, BigInt),
          arm: { at: tensor("int32", [slots.length, width], Int32Array.from(own)) },
          text: tensor("string", [slots.length, width], words(own)),
          same: 7,
        });
      }),
    );
  });

  test("are one element if the tensor has one element for every row", () => {
    const one = { dtype: "int32", shape: [4, 3], data: Int32Array.of(5) } as const;
    expect(rowsOf(one, [1, 3], 4)).toEqual({ ...one, shape: [2, 3] });
  });

  test("are the value itself if it is not an object, or null", () => {
    for (const value of [3, 5n, "word", true, null, undefined]) {
      expect(rowsOf(value, [0, 2], 3)).toBe(value);
    }
  });
});
