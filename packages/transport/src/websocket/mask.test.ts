// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, test } from "vitest";
import { mask } from "./mask.ts";

test("a mask applies to bytes of any length and alignment, and to no others", () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 400, size: "max" }),
      fc.nat(7),
      fc.uint8Array({ minLength: 8, maxLength: 8 }),
      fc.nat(4),
      fc.nat(50),
      (body, offset, keys, key, rest) => {
        const memory = new Uint8Array(offset + body.length + rest).fill(1);
        memory.set(body, offset);
        const bytes = memory.subarray(Math.min(offset, 3));
        const start = offset - Math.min(offset, 3);
        mask(bytes, start, start + body.length, keys, key);
        const expected = new Uint8Array(offset + body.length + rest).fill(1);
        expected.set(
          body.map((byte, i) => byte ^ (keys[key + (i % 4)] ?? 0)),
          offset,
        );
        expect(memory).toEqual(expected);
      },
    ),
    { numRuns: 2_000 },
  );
});
