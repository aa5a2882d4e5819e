// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { unanswerable } from "./unanswerable.ts";

test("the error of requests without a payload is created once, because a flood can send one in 5 bytes", () => {
  expect(unanswerable({ case: undefined })).toBe(unanswerable({ case: undefined }));
});
