// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { ratios } from "./ratios.ts";

describe("ratios of paired turns", () => {
  it("take the median of each launch, then the median of the launches", () => {
    const pairs = [
      [2, 1],
      [3, 1],
      [90, 1],
      [1, 1],
      [1, 2],
      [1, 1],
    ] as const;
    expect(ratios(pairs, 3)).toEqual({ median: 2, low: 1, high: 3 });
  });

  it("compare turns that follow each other, so that a slow spell of the machine cancels out", () => {
    const pairs = [10, 20, 40, 20].map((slow): [number, number] => [slow * 1.1, slow]);
    const { low, high } = ratios(pairs, 2);
    expect(low).toBeCloseTo(1.1);
    expect(high).toBeCloseTo(1.1);
  });

  it("have an interval that contains the median of their distribution in 95 % of runs", () => {
    // Launches that are uniform from 0.9 to 1.1, from a generator of pseudorandom numbers.
    let state = 1;
    const launch = (): readonly [number, number] => {
      state = (state * 48_271) % 2_147_483_647;
      return [0.9 + (0.2 * state) / 2_147_483_647, 1];
    };
    for (const launches of [16, 32]) {
      const runs = Array.from({ length: 2_000 }, () =>
        ratios(Array.from({ length: launches }, launch), 1),
      );
      const share = runs.filter(({ low, high }) => low <= 1 && 1 <= high).length / runs.length;
      expect(share).toBeGreaterThan(0.95);
      expect(share).toBeLessThan(0.99);
    }
  });
});
