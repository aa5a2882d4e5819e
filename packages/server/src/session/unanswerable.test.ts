// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { notJoined } from "./joining.ts";
import { unanswerable } from "./unanswerable.ts";

test("the errors of requests that a flood can send in a few bytes are created once", () => {
  expect(unanswerable({ case: undefined })).toBe(unanswerable({ case: undefined }));
  expect(notJoined("step")).toBe(notJoined("step"));
  expect(notJoined("reset")).toBe(notJoined("reset"));
  expect(notJoined("reset").message).not.toBe(notJoined("step").message);
});
