// SPDX-License-Identifier: Apache-2.0
import { test, vi } from "vitest";

test("leaves fake timers", () => {
  vi.useFakeTimers();
});
