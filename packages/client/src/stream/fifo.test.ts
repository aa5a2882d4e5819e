// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, test } from "vitest";
import { Fifo } from "./fifo.ts";

test("a fifo adds and removes entries as an array does", () => {
  // Mostly pushes, so that the fifo outgrows its first ring of 16 entries.
  const operation = fc.oneof(
    {
      weight: 3,
      arbitrary: fc.record({ kind: fc.constant("push" as const), value: fc.integer() }),
    },
    {
      weight: 1,
      arbitrary: fc.record({ kind: fc.constantFrom("shift" as const, "pop" as const) }),
    },
  );
  fc.assert(
    fc.property(fc.array(operation, { maxLength: 200, size: "max" }), (operations) => {
      const fifo = new Fifo<number>();
      const model: number[] = [];
      for (const next of operations) {
        if (next.kind === "push") {
          fifo.push(next.value);
          model.push(next.value);
        } else {
          expect(fifo[next.kind]()).toBe(model[next.kind]());
        }
        expect(fifo.length).toBe(model.length);
        expect(fifo.peek()).toBe(model[0]);
      }
    }),
  );
});

test("a fifo can be iterated, oldest first, without removing an entry", () => {
  const fifo = new Fifo<number>();
  for (let i = 0; i < 20; i++) {
    fifo.push(i);
  }
  for (let i = 0; i < 10; i++) {
    fifo.shift();
  }
  for (let i = 20; i < 30; i++) {
    fifo.push(i);
  }
  expect([...fifo]).toEqual(Array.from({ length: 20 }, (_, i) => i + 10));
  expect(fifo.length).toBe(20);
});
