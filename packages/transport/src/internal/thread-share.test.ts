// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { turnKeyOf } from "./network-turns.ts";
import { ThreadShare } from "./thread-share.ts";

/** A ThreadShare whose clock and event loop the test drives. */
function driven() {
  const tasks: (() => void)[] = [];
  const loop = { nowMs: 0, turn: () => tasks.splice(0).map((task) => task()), tasks };
  const share = new ThreadShare(
    () => loop.nowMs,
    (task) => tasks.push(task),
  );
  return { share, loop };
}

test("a turn is over once its requests have taken more than a millisecond", () => {
  const { share, loop } = driven();
  share.count();
  loop.nowMs = 1;
  share.count();
  expect(share.isOver).toBe(false);
  loop.nowMs = 1.1;
  share.count();
  expect(share.isOver).toBe(true);
  loop.turn();
  expect(share.isOver).toBe(false);
});

test("time without requests is not counted", () => {
  const { share, loop } = driven();
  for (let i = 0; i < 10; i++) {
    share.count();
    loop.turn();
    loop.nowMs += 1000;
  }
  expect(share.isOver).toBe(false);
  expect(loop.tasks).toEqual([]);
});

test("every 64th step reads the clock", () => {
  const { share, loop } = driven();
  share.count();
  loop.nowMs = 10;
  for (let i = 1; i < 64; i++) {
    share.countStep();
  }
  expect(share.isOver).toBe(false);
  share.countStep();
  expect(share.isOver).toBe(true);
});

test("networks, the connections of each network and the sessions of each connection take turns", () => {
  const { share, loop } = driven();
  const order: string[] = [];
  const waiting = (network: string, connection: string, name: string): void =>
    share.wait({ network, connection }, () => {
      order.push(name);
      loop.nowMs += 3;
      share.count();
    });
  share.count();
  for (const name of ["a1", "a2", "a3"]) {
    waiting("10.0.0.1", "10.0.0.1:1", name);
  }
  waiting("10.0.0.1", "10.0.0.1:2", "b1");
  waiting("10.0.0.2", "10.0.0.2:1", "c1");
  loop.turn();
  expect(order).toEqual(["a1"]); // It took a whole turn.
  loop.turn();
  expect(order).toEqual(["a1", "c1"]);
  loop.turn();
  expect(order).toEqual(["a1", "c1", "b1"]);
  loop.turn();
  loop.turn();
  expect(order).toEqual(["a1", "c1", "b1", "a2", "a3"]);
});

test("of tasks that take long, one runs in each turn", async () => {
  const { share, loop } = driven();
  const ran: number[] = [];
  const results = [1, 2, 3].map((task) =>
    share.run(turnKeyOf("192.0.2.1:1"), () => {
      loop.nowMs += 3;
      ran.push(task);
      return task;
    }),
  );
  expect(ran).toEqual([1]);
  loop.turn();
  expect(ran).toEqual([1, 2]);
  loop.turn();
  expect(await Promise.all(results)).toEqual([1, 2, 3]);
});

test("a task that throws rejects its promise, and the next task runs", async () => {
  const { share } = driven();
  const failed = share.run(turnKeyOf("192.0.2.1:1"), () => {
    throw new Error("no paint");
  });
  await expect(failed).rejects.toThrow("no paint");
  expect(await share.run(turnKeyOf("192.0.2.1:1"), () => "painted")).toBe("painted");
});
