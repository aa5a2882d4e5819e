// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import { freeRunning } from "./free-running.ts";
import { realtime } from "./realtime.ts";
import { turns } from "./turns.ts";
import { wakeUp } from "./wake-up.ts";

async function setUp(count: number, options: TallyOptions, length = 100) {
  const log: TallyEvent[] = [];
  const time = manualTime();
  const server = createEnvironmentServer({ worlds: [tally({ log, ...options })], time });
  const world = await connectPeer(server).createWorld({ length });
  const peers = await joinedPeers(server, world, count);
  const [one, two, three] = peers as [Peer, Peer, Peer];
  return { log, time, server, world, one, two, three };
}

const ticks = (log: readonly TallyEvent[]) => log.filter((event) => event.startsWith("tick"));

describe("freeRunning", () => {
  it("behaviour 37: advances with each step of each agent, which waits for nobody", async () => {
    const { one, two, log } = await setUp(2, { clock: freeRunning() });
    await Promise.all([one.step(), two.step()]);
    await one.step({ add: 1 });
    await one.step({ add: 2 });
    expect((await two.step({ add: 5 })).observations).toMatchObject({ total: 8, reward: 5 });
    expect(ticks(log)).toEqual(["tick 1:1", "tick 1:2", "tick 2:5"]);
  });

  it("behaviour 61: tells the others the end at their next step", async () => {
    const { one, two } = await setUp(2, { clock: freeRunning() }, 2);
    await Promise.all([one.step(), two.step()]);
    await one.step({ add: 1 });
    expect((await one.step({ add: 1 })).state).toBe("TERMINATED");
    expect(await two.step({ add: 7 })).toMatchObject({
      state: "TERMINATED",
      observations: { total: 2 },
    });
  });

  it("takes the steps that waited once the world is no longer blocked", async () => {
    const { one, two, three, server, world } = await setUp(3, {
      clock: freeRunning(),
      onLeave: "block",
    });
    await Promise.all([one.step(), two.step(), three.step()]);
    await three.leave();
    const steps = [one.step({ add: 1 }), two.step({ add: 2 })];
    expect(await isBlocked(Promise.race(steps))).toBe(true);
    await joinedPeers(server, world, 1);
    expect((await Promise.all(steps)).map(({ observations }) => observations["total"])).toEqual([
      1, 3,
    ]);
  });
});

describe("turns", () => {
  it("behaviour 37: lets one agent move at a time, and answers it when it is its turn again", async () => {
    const { one, two, log } = await setUp(2, { clock: turns() });
    const [first, second] = [one.step(), two.step()];
    expect((await first).observations["total"]).toBe(0);
    expect(await isBlocked(second)).toBe(true);
    const mine = one.step({ add: 1 });
    expect((await second).observations).toMatchObject({ total: 1, reward: 0 });
    expect(await isBlocked(mine)).toBe(true);
    const yours = two.step({ add: 10 });
    expect((await mine).observations).toMatchObject({ total: 11, reward: 1 });
    void one.step({ add: 2 });
    expect((await yours).observations).toMatchObject({ total: 13, reward: 10 });
    expect(ticks(log)).toEqual(["tick 1:1", "tick 2:10", "tick 1:2"]);
  });

  it("behaviour 37: passes the turn on when its agent is too slow", async () => {
    const clock = turns({ deadlineMs: 100, onMissedDeadline: "default-action" });
    const { one, two, time, log } = await setUp(2, { clock });
    const second = two.step();
    await one.step();
    expect(await isBlocked(second)).toBe(true);
    time.advance(100);
    expect((await second).state).toBe("RUNNING");
    const yours = two.step({ add: 2 });
    expect(await isBlocked(yours)).toBe(true);
    const mine = one.step({ add: 1 });
    expect((await yours).observations).toMatchObject({ total: 3, reward: 2 });
    void two.step({ add: 4 });
    expect((await mine).observations).toMatchObject({ total: 7, reward: 1 });
    expect(ticks(log)).toEqual(["tick ", "tick 2:2", "tick 1:1", "tick 2:4"]);
  });

  it("behaviour 37: passes the turn on when its agent dies", async () => {
    const { one, two, three } = await setUp(3, { clock: turns() });
    const others = [two.step(), three.step()];
    await one.step();
    one.drop();
    expect((await others[0])?.state).toBe("RUNNING");
    two.drop();
    expect((await others[1])?.state).toBe("RUNNING");
    expect((await three.step({ add: 1 })).observations["total"]).toBe(1);
  });

  it("behaviour 37: goes by the order that the world chooses", async () => {
    const order: number[] = [];
    const backwards = defineWorld({
      name: "backwards",
      actions: {},
      observations: {},
      clock: turns(),
      create: () => ({
        step: (actions) => {
          order.push(...actions.keys());
        },
        observe: {},
        turn: (agents, previous) => {
          const earlier = agents.filter((agent) => previous !== undefined && agent < previous);
          return (earlier.at(-1) ?? agents.at(-1)) as (typeof agents)[number];
        },
      }),
    });
    const server = createEnvironmentServer({ worlds: [backwards] });
    const world = await connectPeer(server).createWorld();
    const peers = await joinedPeers(server, world, 3);
    await Promise.all(
      peers.map(async (peer) => {
        for (let i = 0; i < 3; i++) await peer.step();
        await peer.leave();
      }),
    );
    expect(order.slice(0, 6)).toEqual([3, 2, 1, 3, 2, 1]);
  });

  it("behaviour 5: an agent whose first turn never came is RUNNING before it learns the end", async () => {
    const { one, two } = await setUp(2, { clock: turns() }, 1);
    const second = two.step();
    await one.step();
    const end = one.step({ add: 1 });
    expect((await end).state).toBe("TERMINATED");
    expect((await second).state).toBe("RUNNING");
    expect((await two.step()).state).toBe("TERMINATED");
  });
});

describe("realtime", () => {
  it("behaviour 54: the world runs on when no agent steps, with its latest actions", async () => {
    const { one, time, log } = await setUp(1, { clock: realtime({ ticksPerSecond: 10 }) });
    await one.step();
    time.advance(200);
    const step = one.step({ add: 2 });
    expect(await isBlocked(step)).toBe(true);
    time.advance(100);
    expect((await step).observations).toMatchObject({ tick: 3, total: 2, reward: 2 });
    time.advance(300);
    expect(log.at(-1)).toBe("tick 1:2");
    const last = one.step({ add: 1 });
    await quiet();
    time.advance(100);
    expect((await last).observations).toMatchObject({ total: 9, reward: 7 });
  });

  it("behaviour 37: answers with the newest observation at once, where the world says so", async () => {
    const clock = realtime({
      ticksPerSecond: 10,
      answer: "newest",
      onMissedDeadline: "default-action",
    });
    const { one, time } = await setUp(1, { clock });
    await one.step();
    expect((await one.step({ add: 2 })).observations).toMatchObject({
      tick: 0,
      total: 0,
      reward: 0,
    });
    time.advance(200);
    expect((await one.step({})).observations).toMatchObject({ tick: 2, total: 2, reward: 2 });
    expect((await one.step({})).observations).toMatchObject({ tick: 2, reward: 0 });
  });

  it("stops when its agents are gone", async () => {
    const { one, time } = await setUp(1, { clock: realtime({ ticksPerSecond: 10 }) });
    await one.step();
    const { timers } = time;
    one.drop();
    await quiet();
    expect(time.timers).toBe(timers - 1);
  });

  it("refuses a rate that is none", () => {
    expect(() => realtime({ ticksPerSecond: 0 })).toThrow(/above 0.*received 0/);
  });
});

describe("wakeUp", () => {
  it("behaviour 37: goes on to the earliest waking, and answers who wakes", async () => {
    const { one, two, log } = await setUp(2, { clock: wakeUp({ action: "sleep" }) });
    await Promise.all([one.step(), two.step()]);
    const long = one.step({ add: 1, sleep: 5 });
    const short = await two.step({ add: 2, sleep: 2 });
    expect(short.observations).toMatchObject({ tick: 2, total: 3, reward: 2 });
    expect(await isBlocked(long)).toBe(true);
    const both = await Promise.all([long, two.step({ add: 4, sleep: 3 })]);
    expect(both.map(({ observations }) => observations["tick"])).toEqual([5, 5]);
    expect(both.map(({ observations }) => observations["reward"])).toEqual([1, 4]);
    expect(ticks(log)).toEqual(["tick 1:1 2:2", "tick ", "tick 2:4", "tick ", "tick "]);
  });

  it("sleeps long without a deep stack, and not past the end", async () => {
    const { one } = await setUp(1, { clock: wakeUp({ action: "sleep" }) }, 900);
    await one.step();
    const step = await one.step({ sleep: 1000 });
    expect(step).toMatchObject({ state: "TERMINATED", observations: { tick: 900 } });
  });
});
