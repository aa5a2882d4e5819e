// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Slots } from "./slots.ts";

test("tasks run in their order, at most as many at a time as there are slots, and failed tasks free their slots", async () => {
  const slots = new Slots(2);
  const began: number[] = [];
  const ends = new Map<number, (error?: Error) => void>();
  const results = Array.from({ length: 5 }, (_, i) =>
    slots.run(
      "network",
      () =>
        new Promise<string>((resolve, reject) => {
          began.push(i);
          ends.set(i, (error) => (error === undefined ? resolve(`result ${i}`) : reject(error)));
        }),
    ),
  );
  const settled = Promise.allSettled(results);
  expect(began).toEqual([0, 1]);
  ends.get(1)?.(new Error("failed"));
  await expect(results[1]).rejects.toThrow("failed");
  await expect.poll(() => began).toEqual([0, 1, 2]);
  ends.get(0)?.();
  ends.get(2)?.();
  await expect.poll(() => began).toEqual([0, 1, 2, 3, 4]);
  ends.get(3)?.();
  ends.get(4)?.();
  expect((await settled).map(({ status }) => status)).toEqual([
    "fulfilled",
    "rejected",
    "fulfilled",
    "fulfilled",
    "fulfilled",
  ]);
  expect(await slots.run("network", async () => "free again")).toBe("free again");
});

test("a task of another network waits for no more than one task of a busy network", async () => {
  const slots = new Slots(1);
  const began: string[] = [];
  const tasks = ["busy", "busy", "busy", "calm", "busy"].map((network) =>
    slots.run(network, async () => {
      began.push(network);
    }),
  );
  await Promise.all(tasks);
  expect(began).toEqual(["busy", "busy", "calm", "busy", "busy"]);
});
