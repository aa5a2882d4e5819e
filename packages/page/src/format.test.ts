// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { formatAge } from "./format.ts";

test.each([
  [-5, "0 s"],
  [59_999, "59 s"],
  [60_000, "1 min 00 s"],
  [3_599_000, "59 min 59 s"],
  [3_600_000, "1 h 00 min"],
  [90_000_000, "25 h 00 min"],
])("a time span of %d ms is shown as %j", (ms, text) => {
  expect(formatAge(ms)).toBe(text);
});
