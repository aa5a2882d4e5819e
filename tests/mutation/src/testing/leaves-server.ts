// SPDX-License-Identifier: Apache-2.0
import { createServer } from "node:net";
import { test } from "vitest";

test("leaves a server", async () => {
  await new Promise<void>((resolve) => createServer().listen(0, resolve));
});
