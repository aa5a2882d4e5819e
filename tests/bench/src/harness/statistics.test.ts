// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { histogram } from "./histogram.ts";
import { median, quantile, summarize } from "./statistics.ts";

describe("statistics", () => {
  it("the median of an odd number of samples is the middle one", () => {
    expect(median([9, 1, 5])).toBe(5);
  });

  it("the median of an even number of samples is the mean of the two in the middle", () => {
    expect(median([10, 1, 2, 4])).toBe(3);
  });

  it("a quantile is the nearest rank", () => {
    const samples = Array.from({ length: 100 }, (_, i) => 100 - i);
    expect(quantile(samples, 0.99)).toBe(99);
    expect(quantile(samples, 0.5)).toBe(50);
    expect(quantile(samples, 0)).toBe(1);
    expect(quantile(samples, 1)).toBe(100);
  });

  it("a summary does not change the samples", () => {
    const samples = [3, 1, 2];
    expect(summarize(samples)).toEqual({ median: 2, min: 1, max: 3 });
    expect(samples).toEqual([3, 1, 2]);
  });

  it("no samples have no median", () => {
    expect(median([])).toBeNaN();
    expect(quantile([], 0.5)).toBeNaN();
  });
});

describe("a histogram", () => {
  it("reports quantiles to within three percent, over six orders of magnitude", () => {
    const all = histogram();
    for (let i = 1; i <= 1000; i++) {
      all.record(i / 10);
    }
    for (let i = 0; i < 10; i++) {
      all.record(1e6);
    }
    expect(all.count).toBe(1010);
    expect(Math.abs(all.quantile(0.5) / 50.5 - 1)).toBeLessThan(0.03);
    expect(Math.abs(all.quantile(1) / 1e6 - 1)).toBeLessThan(0.03);
  });

  it("is empty after it is cleared", () => {
    const all = histogram();
    all.record(5);
    all.clear();
    expect(all.count).toBe(0);
    expect(all.quantile(0.5)).toBeNaN();
  });

  it("accepts values beyond its range", () => {
    const all = histogram();
    all.record(0);
    all.record(1e30);
    expect(all.count).toBe(2);
  });
});
