// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { TokenBuckets } from "./token-buckets.ts";

/** Takes tokens of a key until it has none, and returns their number. */
function taken(buckets: TokenBuckets, key: string): number {
  let count = 0;
  while (buckets.take(key)) {
    count += 1;
  }
  return count;
}

test("a key has four seconds' worth of tokens at once, and then earns them at its rate", () => {
  let nowMs = 0;
  const buckets = new TokenBuckets(10, () => nowMs);
  expect([buckets.burst, taken(buckets, "one")]).toEqual([40, 40]);
  nowMs += 500;
  expect([taken(buckets, "one"), taken(buckets, "other")]).toEqual([5, 40]);
  nowMs += 60_000;
  expect(taken(buckets, "one")).toBe(40);
});

test("while the clock is set back, a key neither earns nor loses tokens", () => {
  let nowMs = 3_600_000;
  const buckets = new TokenBuckets(1, () => nowMs);
  buckets.take("one");
  nowMs = 0;
  expect(taken(buckets, "one")).toBe(3);
  nowMs += 2_000;
  expect(taken(buckets, "one")).toBe(2);
});

test("keys with full buckets are forgotten, and all other keys are remembered", () => {
  let nowMs = 0;
  const buckets = new TokenBuckets(10, () => nowMs);
  taken(buckets, "busy");
  for (let key = 0; key < 100_000; key++) {
    buckets.take(`${key}`);
    if (key % 1_000 === 0) {
      nowMs += 1_000;
      expect(taken(buckets, "busy")).toBe(10);
    }
  }
  expect(buckets.size).toBeLessThan(5_000);
});
