// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, it } from "vitest";
import { DueQueue } from "./due-queue.ts";

it("takes each key once, when it is due, whatever was set and deleted before", () => {
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
