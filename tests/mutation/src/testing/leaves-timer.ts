// SPDX-License-Identifier: Apache-2.0
import { test } from "vitest";

test("leaves a timer", () => {
  setTimeout(() => {}, 100_000);
});
