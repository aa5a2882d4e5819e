// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { turnKeyOf } from "./network-turns.ts";
import { LoopTurns, ThreadShare } from "./thread-share.ts";

/** A ThreadShare whose clock and event loop the test drives. */
function driven() {
  const tasks: (() => void)[] = [];
  const loop = { nowMs: 0, turn: () => tasks.splice(0).map((task) => task()), tasks };
  const share = new ThreadShare(
    new LoopTurns(
      () => loop.nowMs,
      (task) => tasks.push(task),
    ),
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

test("what tasks schedule for the end of their callback counts as time of the turn", () => {
  const { share, loop } = driven();
  const ticks: (() => void)[] = [];
  let ran = 0;
  /** Runs a turn as Node does: after each callback, what it has scheduled with `process.nextTick`. */
  const turn = (): void => {
    for (const task of loop.tasks.splice(0)) {
      task();
      for (const tick of ticks.splice(0)) {
        tick();
      }
    }
  };
  share.count();
  for (let i = 0; i < 40; i++) {
    share.wait(turnKeyOf("192.0.2.1:1"), () => {
      share.count();
      loop.nowMs += 0.1;
      share.count();
      ran += 1;
      ticks.push(() => {
        loop.nowMs += 0.4;
      });
    });
  }
  for (let turns = 0; turns < 5; turns++) {
    const before = { ran, nowMs: loop.nowMs };
    turn();
    expect(ran).toBeGreaterThan(before.ran);
    // The first part, and the first task of the second part.
    expect(ran - before.ran).toBeLessThanOrEqual(4);
    expect(loop.nowMs - before.nowMs).toBeLessThan(2.1);
  }
  while (ran < 40) {
    turn();
  }
  turn();
  turn();
  expect(loop.tasks).toEqual([]);
});

test("the shares of a thread divide a turn, and the tasks of each run in every turn", () => {
  const tasks: (() => void)[] = [];
  let nowMs = 0;
  const turns = new LoopTurns(
    () => nowMs,
    (task) => tasks.push(task),
  );
  const shares = [new ThreadShare(turns), new ThreadShare(turns), new ThreadShare(turns, 1)];
  const ran = shares.map(() => 0);
  for (const [index, share] of shares.entries()) {
    share.count();
    for (let i = 0; i < 100; i++) {
      share.wait(turnKeyOf("192.0.2.1:1"), () => {
        ran[index] = (ran[index] ?? 0) + 1;
        nowMs += 0.1;
        share.count();
      });
    }
  }
  for (let turn = 1; turn <= 5; turn++) {
    const beganMs = nowMs;
    for (const task of tasks.splice(0)) {
      task();
    }
    expect(nowMs - beganMs).toBeLessThan(1.6);
    expect(ran[2]).toBe(turn);
  }
  const [first = 0, second = 0] = ran;
  expect(Math.abs(first - second)).toBeLessThanOrEqual(5);
  expect(first).toBeGreaterThan(15);
});
