// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { type Bar, judge } from "./bars.ts";
import type { Measured } from "./compare.ts";

const measured = (contender: string, steps: number, cpu: number): Measured => ({
  contender,
  mode: "lock1",
  stepsPerSecond: { median: steps, min: steps, max: steps },
  serverCpuMicros: { median: cpu, min: cpu, max: cpu },
  clientCpuMicros: { median: cpu, min: cpu, max: cpu },
  serverGcMicros: undefined,
  clientGcMicros: undefined,
  p50Micros: undefined,
  p99Micros: undefined,
  serverRssBytes: 0,
  clientRssBytes: 0,
});

const bar: Bar = {
  mode: "lock1",
  contender: "ours",
  against: "theirs",
  figure: "stepsPerSecond",
  bound: 2,
};
const rows = [measured("ours", 300, 5), measured("theirs", 100, 10)];

it("a bar is a minimum ratio of two speeds, or a maximum ratio of two CPU times", () => {
  const bars: readonly Bar[] = [
    bar,
    { ...bar, bound: 4 },
    { ...bar, figure: "cpu", bound: 0.75 },
    { ...bar, figure: "cpu", bound: 0.4 },
  ];
  expect(judge(bars, rows).map(({ ratio, met }) => [ratio, met])).toEqual([
    [3, true],
    [3, false],
    [0.5, true],
    [0.5, false],
  ]);
});

it("a bar against a contender that was not measured is not judged", () => {
  expect(judge([{ ...bar, against: "nobody" }], rows)).toEqual([]);
});
