// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import { DueQueue } from "./due-queue.ts";

it("after any sequence of sets and deletes, a queue returns each key once, when the key is due, earliest key first", () => {
  const key = fc.nat(30).map(String);
  const dueMs = fc.nat(200);
  const command = fc.oneof(
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("set" as const), key, dueMs }) },
    { weight: 3, arbitrary: fc.record({ kind: fc.constant("delete" as const), key }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("take" as const), dueMs }) },
  );
  fc.assert(
    fc.property(fc.array(command, { maxLength: 200, size: "max" }), (commands) => {
      const queue = new DueQueue();
      const model = new Map<string, number>();
      const take = (nowMs: number): void => {
        const due = [...model].filter(([, at]) => at <= nowMs);
        const taken = queue.takeDue(nowMs);
        expect(taken.map((key) => model.get(key))).toEqual(
          due.map(([, at]) => at).sort((a, b) => a - b),
        );
        expect(taken.sort()).toEqual(due.map(([key]) => key).sort());
        for (const key of taken) {
          model.delete(key);
        }
      };
      for (const command of commands) {
        if (command.kind === "set") {
          queue.set(command.key, command.dueMs);
          model.set(command.key, command.dueMs);
        } else if (command.kind === "delete") {
          queue.delete(command.key);
          model.delete(command.key);
        } else {
          take(command.dueMs);
        }
      }
      take(1_000);
    }),
  );
});

it("a queue returns due keys earliest first", () => {
  fc.assert(
    fc.property(
      fc.array(fc.nat(1_000), { maxLength: 60, size: "max" }),
      fc.nat(1_000),
      (dues, nowMs) => {
        const queue = new DueQueue();
        for (const [key, dueMs] of dues.entries()) {
          queue.set(String(key), dueMs);
        }
        const taken = queue.takeDue(nowMs).map((key) => dues[Number(key)] ?? 0);
        expect(taken).toEqual(dues.filter((dueMs) => dueMs <= nowMs).sort((a, b) => a - b));
      },
    ),
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

it("a key that is set twice is returned once, at its later time", () => {
  const queue = new DueQueue();
  queue.set("a", 10);
  queue.set("a", 20);
  expect(queue.takeDue(10)).toEqual([]);
  expect(queue.takeDue(20)).toEqual(["a"]);
  queue.set("b", 5);
  queue.set("b", 5);
  expect(queue.takeDue(5)).toEqual(["b"]);
});
