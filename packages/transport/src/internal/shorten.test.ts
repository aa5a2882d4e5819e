// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { shorten } from "./shorten.ts";

test("a text is shortened above 100 characters, or above another number", () => {
  expect(shorten("a".repeat(100))).toBe("a".repeat(100));
  expect(shorten("a".repeat(101))).toBe(`${"a".repeat(100)}…`);
  expect(shorten("abc", 2)).toBe("ab…");
});
