// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import { DueQueue } from "./due-queue.ts";

it("a queue returns each key once, when it is due, after any sequence of sets and deletes", () => {
  const command = fc.oneof(
    fc.record({ kind: fc.constant("set" as const), key: fc.nat(30), dueMs: fc.nat(200) }),
    fc.record({ kind: fc.constant("delete" as const), key: fc.nat(30), dueMs: fc.constant(0) }),
    fc.record({ kind: fc.constant("take" as const), key: fc.constant(0), dueMs: fc.nat(200) }),
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200 }), (commands) => {
      const queue = new DueQueue();
      const model = new Map<string, number>();
      for (const { kind, key, dueMs } of commands) {
        if (kind === "set") {
          queue.set(String(key), dueMs);
          model.set(String(key), dueMs);
        } else if (kind === "delete") {
          queue.delete(String(key));
          model.delete(String(key));
        } else {
          const due = [...model].filter(([, at]) => at <= dueMs).map(([name]) => name);
          expect(queue.takeDue(dueMs).sort()).toEqual(due.sort());
          for (const name of due) {
            model.delete(name);
          }
        }
      }
      expect(queue.takeDue(1_000).sort()).toEqual([...model.keys()].sort());
    }),
  );
});

it("a queue returns due keys earliest first", () => {
  fc.assert(
    fc.property(fc.array(fc.nat(1_000), { maxLength: 60 }), fc.nat(1_000), (dues, nowMs) => {
      const queue = new DueQueue();
      for (const [key, dueMs] of dues.entries()) {
        queue.set(String(key), dueMs);
      }
      const taken = queue.takeDue(nowMs).map((key) => dues[Number(key)] ?? 0);
      expect(taken).toEqual(dues.filter((dueMs) => dueMs <= nowMs).sort((a, b) => a - b));
    }),
  );
});

it("a queue keeps its order when keys are set again many times", () => {
  const queue = new DueQueue();
  for (let round = 0; round < 10; round++) {
    for (let key = 0; key < 10; key++) {
      queue.set(String(key), 1_000 - 10 * round - key);
    }
  }
  expect(queue.takeDue(905)).toEqual(["9", "8", "7", "6", "5"]);
  expect(queue.takeDue(1_000)).toEqual(["4", "3", "2", "1", "0"]);
  expect(queue.takeDue(1_000)).toEqual([]);
});

it("a queue does not return a key at an earlier time after the key was set again or returned", () => {
  const queue = new DueQueue();
  queue.set("a", 10);
  queue.set("a", 20);
  expect(queue.takeDue(10)).toEqual([]);
  expect(queue.takeDue(20)).toEqual(["a"]);
  queue.set("b", 5);
  queue.set("b", 5);
  expect(queue.takeDue(5)).toEqual(["b"]);
});
