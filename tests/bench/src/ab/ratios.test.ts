// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { ratios } from "./ratios.ts";

describe("ratios of paired turns", () => {
  it("take the median of each launch, then the median, minimum and maximum over launches", () => {
    const pairs = [
      [2, 1],
      [3, 1],
      [90, 1],
      [1, 1],
      [1, 2],
      [1, 1],
    ] as const;
    expect(ratios(pairs, 3)).toEqual({ median: 2, min: 1, max: 3 });
  });

  it("compare turns that follow each other, so that a slow spell of the machine cancels out", () => {
    const pairs = [10, 20, 40, 20].map((slow): [number, number] => [slow * 1.1, slow]);
    const { min, max } = ratios(pairs, 2);
    expect(min).toBeCloseTo(1.1);
    expect(max).toBeCloseTo(1.1);
  });
});
