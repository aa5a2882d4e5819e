// SPDX-License-Identifier: Apache-2.0
import { describe, expect, it } from "vitest";
import { fullBars, missedBars, type Row } from "./bars.ts";
import { ownGapMs, ownStepMs, quantile } from "./measure.ts";

describe("the time of a gap and of a step", () => {
  it("excludes the time in which the server did not have the CPU", () => {
    expect(ownGapMs({ from: 0, to: 100, cpuMs: 30 })).toBe(30);
    expect(ownGapMs({ from: 0, to: 100, cpuMs: 150 })).toBe(100);
    expect(ownStepMs([10, 80], [], [{ from: 0, to: 100, cpuMs: 50 }])).toBeCloseTo(40);
  });

  it("excludes the time in which the machine was paused, and subtracts overlapping pauses only once", () => {
    const standstills = [
      { from: 0, to: 40 },
      { from: 20, to: 60 },
      { from: 500, to: 900 },
    ];
    expect(ownStepMs([10, 80], standstills, [])).toBe(30);
  });

  it("includes a stall of the server", () => {
    expect(ownStepMs([10, 80], [], [{ from: 0, to: 100, cpuMs: 100 }])).toBe(80);
  });
});

describe("a quantile", () => {
  it("is the nearest rank", () => {
    expect(quantile([3, 1, 2], 0.5)).toBe(2);
    expect(quantile([3, 1, 2], 0.99)).toBe(3);
    expect(quantile([], 0.5)).toBeNaN();
  });
});

describe("the bars", () => {
  const row: Row = {
    room: "frames",
    attack: "an attack",
    stallMs: 200,
    residentBytes: 500e6,
    beforeP99Ms: 1,
    controlP99Ms: 0.5,
    p99Ms: 5,
    worstMs: 300,
    recoveredMs: 2_000,
    descriptors: 0,
    failures: [],
    seen: "",
  };

  it("are met up to their values", () => {
    expect(missedBars(row, fullBars)).toEqual([]);
  });

  it("are missed beyond their values, each with a text", () => {
    const bad = { ...row, stallMs: 251, residentBytes: 513e6, p99Ms: 5.1, worstMs: 301 };
    expect(missedBars({ ...bad, recoveredMs: 2_001 }, fullBars)).toHaveLength(5);
    expect(missedBars({ ...row, room: "messages" }, fullBars)).toEqual(["stall, ms, 200 > 50"]);
  });

  it("compare the p99 with that of the agent on the other server, if it is higher than the p99 before the attack", () => {
    const delayed = { ...row, p99Ms: 20, controlP99Ms: 4 };
    expect(missedBars(delayed, fullBars)).toEqual([]);
    expect(missedBars({ ...delayed, p99Ms: 21 }, fullBars)).toHaveLength(1);
  });

  it("are missed by leaked descriptors, by failures, and by figures that were not measured", () => {
    expect(missedBars({ ...row, recoveredMs: undefined, descriptors: 3 }, fullBars)).toEqual([
      "3 descriptors left open",
    ]);
    expect(missedBars({ ...row, failures: ["the server has died"] }, fullBars)).toHaveLength(1);
    expect(missedBars({ ...row, residentBytes: Number.NaN }, fullBars)).toHaveLength(1);
  });
});
