// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Changes } from "./changes.ts";

test("a change wakes all waiting callers and removes them", async () => {
  const changes = new Changes();
  const waits = [changes.next(undefined), changes.next({ timeoutMs: 60_000 })];
  expect(changes.waiting).toBe(2);
  changes.announce();
  await Promise.all(waits);
  expect(changes.waiting).toBe(0);
});

test("a wait that times out or is aborted is removed", async () => {
  const changes = new Changes();
  const controller = new AbortController();
  const waits = [
    changes.next({ timeoutMs: 0 }),
    changes.next({ signal: controller.signal }),
    changes.next({ signal: AbortSignal.abort() }),
  ];
  controller.abort();
  await expect(Promise.allSettled(waits)).resolves.toMatchObject([
    { reason: { code: "DEADLINE_EXCEEDED" } },
    { reason: { code: "CANCELLED" } },
    { reason: { code: "CANCELLED" } },
  ]);
  expect(changes.waiting).toBe(0);
});
