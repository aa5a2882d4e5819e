// SPDX-License-Identifier: Apache-2.0
import { expect, it } from "vitest";
import { later, laterByMessage } from "./later.ts";

it.each([
  ["setImmediate", later],
  ["messages", laterByMessage()],
])("tasks run later and in order, by %s", async (_platform, run) => {
  const seen: string[] = [];
  await new Promise<void>((resolve) => {
    run(() => seen.push("first"));
    run(() => {
      seen.push("second");
      resolve();
    });
    seen.push("before");
  });
  expect(seen).toEqual(["before", "first", "second"]);
});
