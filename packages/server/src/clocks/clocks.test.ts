// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { manualTime, type TimeSource } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import type { ServerEvent } from "../host/events.ts";
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
  it("behaviour 37: advances with each step of each agent, which waits for no other agent", async () => {
    const { one, two, log } = await setUp(2, { clock: freeRunning() });
    await Promise.all([one.step(), two.step()]);
    await one.step({ add: 1 });
    await one.step({ add: 2 });
    expect((await two.step({ add: 5 })).observations).toMatchObject({ total: 8, reward: 5 });
    expect(ticks(log)).toEqual(["tick 1:1", "tick 1:2", "tick 2:5"]);
  });

  it("behaviour 61: delivers the end to the other agents at their next steps", async () => {
    const { one, two } = await setUp(2, { clock: freeRunning() }, 2);
    await Promise.all([one.step(), two.step()]);
    await one.step({ add: 1 });
    expect((await one.step({ add: 1 })).state).toBe("TERMINATED");
    expect(await two.step({ add: 7 })).toMatchObject({
      state: "TERMINATED",
      observations: { total: 2 },
    });
  });

  it("ends the sequence of an agent whose own step is its last, and the others continue", async () => {
    const race = defineWorld({
      name: "race",
      actions: { add: t.int32() },
      observations: { total: t.int32() },
      clock: freeRunning(),
      create() {
        const totals = new Map<number, number>();
        const total = (agent: number): number => totals.get(agent) ?? 0;
        return {
          step(actions) {
            for (const [agent, { add = 0 }] of actions) {
              totals.set(agent, total(agent) + add);
            }
          },
          status: (agent) => (total(agent) < 2 ? "running" : "terminated"),
          observe: { total },
        };
      },
    });
    const server = createEnvironmentServer({ worlds: [race] });
    const world = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    expect(await one.step({ add: 2 })).toMatchObject({
      ...{ state: "TERMINATED", observations: { total: 2 } },
    });
    expect(await two.step({ add: 1 })).toMatchObject({
      ...{ state: "RUNNING", observations: { total: 1 } },
    });
  });

  it("plays the steps that waited once the world is no longer blocked", async () => {
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

describe("freeRunning with a deadline", () => {
  it("behaviour 37: begins without the agents that miss the deadline of first steps", async () => {
    const clock = freeRunning({ deadlineMs: 100, onMissedDeadline: "default-action" });
    const { one, two, time } = await setUp(2, { clock });
    const first = one.step();
    expect(await isBlocked(first)).toBe(true);
    time.advance(100);
    expect((await first).state).toBe("RUNNING");
    expect((await two.step()).state).toBe("RUNNING");
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

  it("behaviour 37: follows the order that the world chooses", async () => {
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
        for (let i = 0; i < 3; i++) {
          await peer.step();
        }
        await peer.leave();
      }),
    );
    expect(order.slice(0, 6)).toEqual([3, 2, 1, 3, 2, 1]);
  });

  it("behaviour 5: an agent that never had a turn is RUNNING before it receives the end", async () => {
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
  it("behaviour 54: the world advances when no agent steps, with the latest actions", async () => {
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

  it("behaviour 37: answers at once with the newest observation if answer is newest", async () => {
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

  it.each(["next", "newest"] as const)(
    "behaviour 64: an action that a step omits keeps its value (%s)",
    async (answer) => {
      const clock = realtime({ ticksPerSecond: 10, answer });
      const { one, time, log } = await setUp(1, { clock });
      const stepped = async (actions: Record<string, number>): Promise<void> => {
        const step = one.step(actions);
        await quiet();
        time.advance(100);
        await step;
      };
      await one.step();
      await stepped({ add: 2 });
      await stepped({});
      await stepped({ sleep: 5 });
      await stepped({ add: 3 });
      time.advance(100);
      expect(ticks(log)).toEqual([2, 2, 2, 3, 3].map((add) => `tick 1:${add}`));
    },
  );

  it("behaviour 64: with `default-action`, a step without actions adds none to its tick", async () => {
    const clock = realtime({ ticksPerSecond: 10, onMissedDeadline: "default-action" });
    const { one, time, log } = await setUp(1, { clock });
    await one.step();
    const acted = one.step({ add: 2 });
    await quiet();
    time.advance(100);
    await acted;
    const observed = one.step({});
    await quiet();
    time.advance(100);
    expect((await observed).observations).toMatchObject({ total: 2, tick: 2 });
    expect(ticks(log)).toEqual(["tick 1:2", "tick "]);
  });

  it("behaviour 65: begins without an agent that never steps, at first and after every end", async () => {
    const clock = realtime({ ticksPerSecond: 50 });
    const { one, time, log, two } = await setUp(2, { clock }, 25);
    await one.step();
    const ended: string[] = [];
    while (ended.length < 5) {
      const step = one.step({});
      await quiet();
      time.advance(20);
      const { state } = await step;
      if (state !== "RUNNING") {
        ended.push(state);
      }
    }
    const starts = log.filter((event) => event.startsWith("start"));
    expect(starts).toEqual(Array.from({ length: 6 }, () => "start 1"));
    expect((await two.step()).state).toBe("RUNNING");
    expect(log).toContain("enter 2");
  });

  it("behaviour 65: the next sequence begins by itself, and the last one's end is still delivered", async () => {
    const { one, two, time, log } = await setUp(2, { clock: realtime({ ticksPerSecond: 10 }) }, 3);
    await Promise.all([one.step(), two.step()]);
    const last = one.step({ add: 1 });
    await quiet();
    time.advance(400);
    expect((await last).state).toBe("RUNNING");
    const begun = log.filter((event) => /^(start|enter)/.test(event));
    expect(begun).toEqual(["start 1", "enter 2", "start 1,2"]);
    for (const agent of [one, two]) {
      expect(await agent.step({ add: 100 })).toMatchObject({
        state: "TERMINATED",
        observations: { tick: 3, total: 3, sequence: 1 },
      });
    }
    // The two agents that have received the end are already in the next sequence.
    expect(await two.step({ add: 100 })).toMatchObject({
      state: "RUNNING",
      observations: { tick: 1, total: 0, sequence: 2 },
    });
    expect(log).not.toContain("enter 1");
  });

  it("behaviour 65: a reset discards the undelivered end of an earlier sequence", async () => {
    const { one, time, log } = await setUp(1, { clock: realtime({ ticksPerSecond: 10 }) }, 2);
    await one.step();
    time.advance(300);
    await one.reset();
    expect(await one.step()).toMatchObject({ state: "RUNNING", observations: { sequence: 2 } });
    expect(log.filter((event) => /^(enter|exit)/.test(event))).toEqual([]);
  });

  it("behaviour 61: later sequences do not overwrite the end that an agent has not received", async () => {
    const { one, time } = await setUp(1, { clock: realtime({ ticksPerSecond: 10 }) }, 2);
    await one.step();
    time.advance(750);
    expect(await one.step()).toMatchObject({
      state: "TERMINATED",
      observations: { sequence: 1, tick: 2 },
    });
    expect(await one.step()).toMatchObject({
      state: "RUNNING",
      observations: { sequence: 4, tick: 1 },
    });
  });

  it("behaviour 65: an agent does not receive the end of a sequence in which it has not stepped", async () => {
    const { one, time, log } = await setUp(1, { clock: realtime({ ticksPerSecond: 10 }) }, 2);
    await one.step();
    const last = one.step();
    await quiet();
    time.advance(100);
    expect((await last).state).toBe("RUNNING");
    time.advance(100);
    expect((await one.step()).state).toBe("TERMINATED");
    time.advance(1_000);
    expect((await one.step()).state).toBe("RUNNING");
    expect(log.filter((event) => event.startsWith("start")).length).toBeGreaterThan(4);
  });

  it("behaviour 65: waits for agents.min only before the first sequence", async () => {
    const log: TallyEvent[] = [];
    const time = manualTime();
    const worlds = [tally({ log, clock: realtime({ ticksPerSecond: 10 }) })];
    const server = createEnvironmentServer({ worlds, time });
    const world = await connectPeer(server).createWorld({ length: 2, min_agents: 2 });
    const [one] = await joinedPeers(server, world, 1);
    const first = one?.step() ?? Promise.reject();
    expect(await isBlocked(first)).toBe(true);
    const [two] = await joinedPeers(server, world, 1);
    expect((await first).state).toBe("RUNNING");
    two?.drop();
    time.advance(200);
    expect((await one?.step())?.state).toBe("TERMINATED");
    time.advance(100);
    expect(log.filter((event) => event.startsWith("start"))).toEqual(["start 1", "start 1"]);
  });

  it("behaviour 66: keeps its tick schedule while an agent is reset all the time", async () => {
    const { one, time, log } = await setUp(1, { clock: realtime({ ticksPerSecond: 10 }) });
    await one.step();
    for (let i = 0; i < 50; i++) {
      await one.reset();
      await one.step();
      time.advance(10);
    }
    expect(ticks(log)).toHaveLength(5);
  });

  it("behaviour 66: keeps its rate for a minute if every timer is late", async () => {
    const manual = manualTime();
    const late: TimeSource = {
      now: () => manual.now(),
      after: (delayMs, callback) => manual.after(delayMs + 3, callback),
    };
    const log: TallyEvent[] = [];
    const worlds = [tally({ log, clock: realtime({ ticksPerSecond: 60, answer: "newest" }) })];
    const server = createEnvironmentServer({ worlds, time: late });
    const [one] = await joinedPeers(
      server,
      await connectPeer(server).createWorld({ length: 77 }),
      1,
    );
    await one?.step();
    for (let second = 0; second < 60; second++) {
      for (let poll = 0; poll < 10; poll++) {
        manual.advance(100);
        await one?.step({}, []);
      }
    }
    expect(Math.abs(ticks(log).length - 3_600)).toBeLessThanOrEqual(4);
  });

  it("behaviour 66: counts and reports skipped ticks, and does not shift the others", async () => {
    const time = manualTime();
    const events: ServerEvent[] = [];
    const tickedAt: number[] = [];
    let finish: () => void = () => {};
    const slow = defineWorld({
      name: "slow",
      actions: {},
      observations: { tick: t.int32() },
      clock: realtime({ ticksPerSecond: 10, answer: "newest" }),
      create: () => ({
        step: () => {
          tickedAt.push(time.now());
          if (tickedAt.length > 1) {
            return;
          }
          return new Promise<void>((resolve) => {
            finish = resolve;
          });
        },
        observe: { tick: () => tickedAt.length },
      }),
    });
    const onEvent = (event: ServerEvent): void => void events.push(event);
    const server = createEnvironmentServer({ worlds: [slow], time, onEvent });
    const [one] = await joinedPeers(server, await connectPeer(server).createWorld(), 1);
    await one?.step();
    const start = time.now();
    time.advance(430);
    finish();
    await quiet();
    time.advance(170);
    expect(tickedAt.map((at) => at - start)).toEqual([100, 430, 500, 600]);
    // The tick at 430 was due at 400.
    expect(server.counts().types).toMatchObject([{ ticks: 4, missedTicks: 2, tickLagMs: 30 }]);
    expect(events.filter(({ kind }) => kind === "ticks-missed")).toEqual([
      { kind: "ticks-missed", worldName: "slow-1", count: 2 },
    ]);
  });

  it("stops when its agents have left", async () => {
    const { one, time } = await setUp(1, { clock: realtime({ ticksPerSecond: 10 }) });
    await one.step();
    const { timers } = time;
    one.drop();
    await quiet();
    expect(time.timers).toBe(timers - 1);
  });

  it("refuses a rate that is not a positive number", () => {
    expect(() => realtime({ ticksPerSecond: 0 })).toThrow(/above 0.*received 0/);
  });
});

describe("wakeUp", () => {
  it("behaviour 37: ticks to the earliest wake-up and answers the agents that wake", async () => {
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

  it("lets an agent sleep for 900 ticks without a deep stack, and wakes it at the end", async () => {
    const { one } = await setUp(1, { clock: wakeUp({ action: "sleep" }) }, 900);
    await one.step();
    const step = await one.step({ sleep: 1000 });
    expect(step).toMatchObject({ state: "TERMINATED", observations: { tick: 900 } });
  });
});
