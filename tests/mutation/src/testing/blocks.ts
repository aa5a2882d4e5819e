// SPDX-License-Identifier: Apache-2.0
import { test } from "vitest";

test("never lets another task run", async () => {
  for (;;) {
    await undefined;
  }
});
