// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { manualTime } from "../time/manual-time.ts";
import { LineLimit } from "./line-limit.ts";

test("in ten seconds, five lines of each kind are admitted, and all further lines are counted", () => {
  const time = manualTime();
  const skipped: unknown[] = [];
  const limit = new LineLimit((...args) => skipped.push(args), time);
  const admitted = Array.from({ length: 16_000 }, () => limit.admits("bad")).filter(Boolean);
  expect(admitted).toHaveLength(5);
  expect(limit.admits("worse")).toBe(true);
  time.advance(10_000);
  expect(skipped).toEqual([["bad", 15_995, 10]]);
  expect(limit.admits("bad")).toBe(true);
});

test("the number of skipped lines is reported early by flush, once", () => {
  const time = manualTime();
  const skipped: unknown[] = [];
  const limit = new LineLimit((...args) => skipped.push(args), time);
  for (let i = 0; i < 7; i++) {
    limit.admits("bad");
  }
  time.advance(3_000);
  limit.flush();
  time.advance(60_000);
  expect(skipped).toEqual([["bad", 2, 3]]);
});
