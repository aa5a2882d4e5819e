// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Counts } from "./counts.ts";
import { NetworkCounts } from "./network-counts.ts";

test("each addition counts one more until it is undone; undoing it again has no effect", () => {
  const counts = new Counts<string>();
  const [first, second] = [counts.add("one"), counts.add("one")];
  counts.add("other");
  expect([counts.of("one"), counts.of("other"), counts.of("none")]).toEqual([2, 1, 0]);
  first();
  first();
  expect(counts.of("one")).toBe(1);
  second();
  expect([counts.of("one"), counts.of("other")]).toEqual([0, 1]);
});

test("a key whose count has returned to zero is forgotten", () => {
  const counts = new Counts<number>();
  const undo = [1, 1, 2].map((key) => counts.add(key));
  undo[0]?.();
  undo[2]?.();
  expect([...counts.keys()]).toEqual([1]);
  undo[1]?.();
  expect([...counts.keys()]).toEqual([]);
});

test("the total is the sum of all counts", () => {
  const counts = new NetworkCounts();
  const close = counts.add("192.0.2.1:1000");
  counts.add("192.0.2.1:1001");
  counts.add("192.0.2.2:1000");
  expect(counts.total).toBe(3);
  close();
  close();
  expect(counts.total).toBe(2);
});

test("addresses of one network are counted together", () => {
  const counts = new NetworkCounts();
  const close = counts.add("[2001:db8::1]:1000");
  counts.add("[2001:db8::2]:1000");
  counts.add("[2001:db8:0:1::1]:1000");
  expect(counts.of("[2001:db8::3]:1")).toBe(2);
  close();
  expect(counts.of("[2001:db8::3]:1")).toBe(1);
});
