// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Queue } from "./queue.ts";

test("items leave in the order in which they were added, even while further items are added", () => {
  const queue = new Queue<number>();
  const taken: (number | undefined)[] = [];
  for (let i = 0; i < 1_000; i++) {
    queue.push(i);
    if (i % 3 === 2) {
      expect(queue.first).toBe(taken.length);
      taken.push(queue.shift());
    }
  }
  expect(queue.size).toBe(1_000 - taken.length);
  while (queue.size > 0) {
    taken.push(queue.shift());
  }
  expect(taken).toEqual(Array.from({ length: 1_000 }, (_, i) => i));
  expect([queue.first, queue.shift(), queue.size]).toEqual([undefined, undefined, 0]);
});
