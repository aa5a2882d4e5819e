// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { tensor } from "../tensors/tensor.ts";
import { t } from "./build.ts";
import { isDiscrete, legalActions } from "./legal-actions.ts";
import { sample } from "./sample.ts";

describe("legalActions", () => {
  test("has an element for each value of a discrete action", () => {
    expect(legalActions(t.discrete(9))).toEqual(t.bool([9]));
    expect(legalActions(t.int8({ min: -2, max: 2 }))).toEqual(t.bool([5]));
    expect(legalActions(t.uint64({ min: 2n ** 63n, max: 2n ** 63n + 6n }))).toEqual(t.bool([7]));
  });

  test.each([t.int8(), t.float32({ min: 0, max: 1 }), t.int32([2], { min: 0, max: 1 }), t.bool()])(
    "refuses what is not discrete",
    (spec) => {
      expect(isDiscrete(spec)).toBe(false);
      expect(() => legalActions(spec)).toThrow(/expected a discrete action/);
    },
  );
});

describe("sample", () => {
  const legal = tensor("bool", [5], Uint8Array.of(0, 1, 0, 0, 1));

  test.each([
    [t.int8({ min: -2, max: 2 }), new Set([-1, 2])],
    [t.uint64({ min: 10n, max: 14n }), new Set([11n, 14n])],
  ])("draws each legal value, and no other", (spec, values) => {
    let calls = 0;
    const drawn = Array.from(
      { length: 50 },
      () => sample(spec, () => ((calls++ * 7) % 50) / 50, { legal }).data[0],
    );
    expect(new Set(drawn)).toEqual(values);
  });

  test("refuses a mask that does not fit, or allows nothing", () => {
    const none = tensor("bool", [5], new Uint8Array(5));
    expect(() => sample(t.discrete(4), () => 0, { legal })).toThrow(/a mask of 4 values.*5 values/);
    expect(() => sample(t.discrete(5), () => 0, { legal: none })).toThrow(/0 of them legal/);
  });
});
