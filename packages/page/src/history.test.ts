// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { History, SharedTotals } from "./history.ts";

const totals = (steps: number, returns = 0, returnSum = 0) => ({ steps, returns, returnSum });

test("a sample of a history has the rates since the previous totals, and no mean return if no sequence has ended", () => {
  const history = new History();
  history.add(1_000, totals(10));
  history.add(1_500, totals(15, 2, 6));
  history.add(2_500, totals(35, 2, 6));
  expect(history.samples).toEqual([
    { timeMs: 1_500, stepsPerSecond: 10, meanReturn: 3 },
    { timeMs: 2_500, stepsPerSecond: 20, meanReturn: undefined },
  ]);
  expect(history.latestReturn).toBe(3);
});

test("a history begins again if totals shrink", () => {
  const history = new History();
  history.add(1_000, totals(100));
  history.add(2_000, totals(110, 1, 3));
  history.add(3_000, totals(5));
  expect(history.latestReturn).toBeUndefined();
  history.add(4_000, totals(7));
  expect(history.samples).toMatchObject([{ timeMs: 4_000, stepsPerSecond: 2 }]);
});

test("a history ignores further totals of the same time", () => {
  const history = new History();
  history.add(1_000, totals(100));
  history.add(1_000, totals(200));
  history.add(2_000, totals(105));
  expect(history.samples).toMatchObject([{ timeMs: 2_000, stepsPerSecond: 5 }]);
});

test("a history keeps its latest 300 samples", () => {
  const history = new History();
  for (let second = 0; second <= 400; second++) {
    history.add(second * 1_000, totals(second));
  }
  expect(history.samples).toHaveLength(300);
  expect(history.latest?.timeMs).toBe(400_000);
});

test("the sum of the totals of several worlds does not jump when a world appears or disappears", () => {
  const shared = new SharedTotals();
  expect(shared.add(new Map([["a", totals(1_000, 10, 5)]]))).toEqual(totals(0));
  expect(
    shared.add(
      new Map([
        ["a", totals(1_010, 11, 7)],
        ["b", totals(500)],
      ]),
    ),
  ).toEqual(totals(10, 1, 2));
  expect(shared.add(new Map([["b", totals(520)]]))).toEqual(totals(30, 1, 2));
});
