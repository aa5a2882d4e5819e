// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, test } from "vitest";
import { LiveSet } from "./live-set.ts";

test("has the members that a Set has, in the same order", () => {
  const change = fc.tuple(fc.boolean(), fc.nat(49));
  fc.assert(
    fc.property(fc.array(change, { minLength: 100, maxLength: 400 }), (changes) => {
      const items = Array.from({ length: 50 }, () => ({ index: -1 }));
      const set = new LiveSet<(typeof items)[number]>();
      const model = new Set<(typeof items)[number]>();
      for (const [isAdded, at] of changes) {
        const item = items[at] ?? { index: -1 };
        if (isAdded) {
          set.add(item);
          model.add(item);
        } else {
          set.delete(item);
          model.delete(item);
        }
        expect(set.size).toBe(model.size);
      }
      expect([...set]).toEqual([...model]);
      expect(items.filter(({ index }) => index >= 0)).toHaveLength(model.size);
    }),
  );
});

test("a member that is deleted during an iteration is still visited, and one that is added is not", () => {
  const [first, second, third] = [{ index: -1 }, { index: -1 }, { index: -1 }];
  const set = new LiveSet<{ index: number }>();
  set.add(first);
  set.add(second);
  const seen: unknown[] = [];
  for (const member of set) {
    seen.push(member);
    set.delete(second);
    set.add(third);
  }
  expect(seen).toEqual([first, second]);
  expect([...set]).toEqual([first, third]);
});

test("does not delete a member of another set", () => {
  const [one, other] = [new LiveSet<{ index: number }>(), new LiveSet<{ index: number }>()];
  const [mine, theirs] = [{ index: -1 }, { index: -1 }];
  one.add(mine);
  other.add(theirs);
  one.delete(theirs);
  expect([...one]).toEqual([mine]);
  expect([...other]).toEqual([theirs]);
});
