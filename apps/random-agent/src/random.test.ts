// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { randomSource } from "./random.ts";

const numbers = (seed: bigint, stream: number, count: number): number[] => {
  const random = randomSource(seed, stream);
  return Array.from({ length: count }, () => random());
};

test("the same seed and stream give the same numbers", () => {
  expect(numbers(7n, 2, 50)).toEqual(numbers(7n, 2, 50));
  expect(numbers(7n, 0, 3)).toMatchInlineSnapshot(`
    [
      0.9771220751552087,
      0.6972569110340415,
      0.45360718469407724,
    ]
  `);
});

test("another seed, a seed with other high bits, and another stream give other numbers", () => {
  const first = numbers(7n, 0, 4);
  expect(numbers(8n, 0, 4)).not.toEqual(first);
  expect(numbers(7n + (1n << 63n), 0, 4)).not.toEqual(first);
  expect(numbers(7n, 1, 4)).not.toEqual(first);
});

test("numbers are uniform in [0, 1)", () => {
  const counts = new Array<number>(16).fill(0);
  const drawn = numbers(1n, 0, 64_000);
  for (const value of drawn) {
    expect(value >= 0 && value < 1).toBe(true);
    counts[Math.floor(value * 16)] = (counts[Math.floor(value * 16)] ?? 0) + 1;
  }
  // Chi-squared with 15 degrees of freedom: above 37.7 once in a thousand, but the seed is fixed.
  const chiSquared = counts.reduce((sum, count) => sum + (count - 4000) ** 2 / 4000, 0);
  expect(chiSquared).toBeLessThan(37.7);
});

test("streams of one seed are not correlated", () => {
  const [a, b] = [numbers(3n, 0, 20_000), numbers(3n, 1, 20_000)];
  const covariance = a.reduce((sum, x, i) => sum + (x - 0.5) * ((b[i] ?? 0) - 0.5), 0) / a.length;
  expect(Math.abs(covariance * 12)).toBeLessThan(0.03);
});
