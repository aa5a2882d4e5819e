// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { ExpiringKeys } from "./expiring-keys.ts";

it("ExpiringKeys remembers each key until it expires; beyond a thousand keys, remembers at most twice as many as are valid", () => {
  let nowMs = 0;
  const keys = new ExpiringKeys(() => nowMs);
  let most = 0;
  for (let count = 0; count < 20_000; count++) {
    keys.add(`${count}`, nowMs + 3_000);
    most = Math.max(most, keys.size);
    nowMs += 1;
    expect(keys.has(`${Math.max(0, count - 2_999)}`)).toBe(true);
  }
  expect(most).toBeGreaterThanOrEqual(3_000);
  expect(most).toBeLessThanOrEqual(6_002);
  expect(keys.has("0")).toBe(false);
});

it("ExpiringKeys remembers a key in the millisecond in which it expires", () => {
  let nowMs = 0;
  const keys = new ExpiringKeys(() => nowMs);
  keys.add("first", 5);
  nowMs = 5;
  for (let count = 0; count < 1_023; count++) {
    keys.add(`${count}`, 0);
  }
  expect([keys.has("first"), keys.size]).toEqual([true, 1]);
});

it("ExpiringKeys does not search for expired keys while it has fewer than 1,024 keys", () => {
  let nowMs = 0;
  const keys = new ExpiringKeys(() => nowMs);
  for (let count = 0; count < 1_023; count++) {
    keys.add(`${count}`, 0);
    nowMs = 1;
  }
  expect(keys.size).toBe(1_023);
  keys.add("last", 1);
  expect(keys.size).toBe(1);
});

it("ExpiringKeys forgets a key that is deleted", () => {
  const keys = new ExpiringKeys(() => 0);
  keys.add("one", 1);
  keys.delete("one");
  expect([keys.has("one"), keys.size]).toEqual([false, 0]);
});
