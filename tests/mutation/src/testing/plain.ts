// SPDX-License-Identifier: Apache-2.0
import { threadId } from "node:worker_threads";
import { test } from "vitest";
import { loadedMs } from "./loaded.ts";

test("tells in which thread it runs, and when that thread loaded a module", ({ task }) => {
  Object.assign(task.meta, { threadId, loadedMs });
});
