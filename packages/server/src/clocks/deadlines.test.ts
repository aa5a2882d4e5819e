// SPDX-License-Identifier: Apache-2.0

import { t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import { lockstep } from "./lockstep.ts";
import { realtime } from "./realtime.ts";
import { turns } from "./turns.ts";
import { wakeUp } from "./wake-up.ts";

async function setUp(count: number, options: TallyOptions, settings = {}) {
  const log: TallyEvent[] = [];
  const time = manualTime();
  const server = createEnvironmentServer({ worlds: [tally({ log, ...options })], time });
  const host = connectPeer(server);
  const world = await host.createWorld({ length: 100, ...settings });
  const peers = await joinedPeers(server, world, count);
  const [one, two, three] = peers as [Peer, Peer, Peer];
  return { log, time, server, host, world, peers, one, two, three };
}

describe("the deadline of first steps", () => {
  it("behaviour 60: removes only late agents, in any order of joining", async () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "leave" });
    const { one, two, three, time, log } = await setUp(3, { clock });
    const first = [two.step(), three.step()];
    await quiet();
    time.advance(50);
    expect((await Promise.all(first)).map(({ state }) => state)).toEqual(["RUNNING", "RUNNING"]);
    expect(log).toContain("start 2,3");
    await expect(one.step()).rejects.toThrow(/^4: .*50 ms/);
  });

  it("behaviour 28: runs from the moment that enough agents have joined", async () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "default-action" });
    const { one, time, server, world } = await setUp(1, { clock }, { min_agents: 2 });
    const first = one.step();
    await quiet();
    time.advance(1000);
    expect(await isBlocked(first)).toBe(true);
    await joinedPeers(server, world, 1);
    time.advance(49);
    expect(await isBlocked(first)).toBe(true);
    time.advance(1);
    expect((await first).state).toBe("RUNNING");
  });

  it("behaviour 43: does not run while the world is being reset", async () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "leave" });
    const { one, two, three, host, world, time } = await setUp(3, { clock });
    await Promise.all([one.step(), two.step(), three.step()]);
    const reset = host.resetWorld(world);
    await one.step();
    await two.step();
    const opening = one.step();
    await quiet();
    time.advance(60);
    expect((await three.step()).state).toBe("INTERRUPTED");
    await reset;
    const others = await Promise.all([opening, two.step(), three.step()]);
    expect(others.map(({ state }) => state)).toEqual(["RUNNING", "RUNNING", "RUNNING"]);
  });
});

describe("the deadline of lockstep", () => {
  it("behaviour 37: restarts when the agent that waited has left", async () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "leave" });
    const { one, two, three, time } = await setUp(3, { clock });
    await Promise.all([one.step(), two.step(), three.step()]);
    void one.step().catch(() => {});
    await quiet();
    time.advance(40);
    one.drop();
    await quiet();
    const waiting = two.step();
    await quiet();
    time.advance(10);
    expect(await isBlocked(waiting)).toBe(true);
    await three.step();
    await waiting;
  });

  it("behaviour 29: counts no agent as late while the world waits for another to join", async () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "leave" });
    const { one, two, three, time, server, world } = await setUp(3, { clock, onLeave: "block" });
    await Promise.all([one.step(), two.step(), three.step()]);
    const waiting = one.step();
    await three.leave();
    await quiet();
    time.advance(1000);
    await joinedPeers(server, world, 1);
    await two.step();
    expect((await waiting).state).toBe("RUNNING");
  });
});

describe("turns", () => {
  it("behaviour 38: an agent that was reset takes its old place in the order", async () => {
    const { one, two } = await setUp(2, { clock: turns() });
    const second = two.step();
    await one.step();
    await one.reset();
    await second;
    const back = one.step();
    const moved = two.step({ add: 1 });
    expect((await back).state).toBe("RUNNING");
    const mine = one.step({ add: 2 });
    expect((await moved).observations["total"]).toBe(3);
    void two.step({ add: 4 });
    expect((await mine).observations["total"]).toBe(7);
  });

  it("behaviour 37: an agent that moves alone has a deadline once another waits", async () => {
    const clock = turns({ deadlineMs: 50, onMissedDeadline: "leave" });
    const { one, time, server, world } = await setUp(1, { clock });
    await one.step();
    const [late] = (await joinedPeers(server, world, 1)) as [Peer];
    const waiting = late.step();
    expect(await isBlocked(waiting)).toBe(true);
    time.advance(50);
    expect((await waiting).state).toBe("RUNNING");
    await expect(one.step()).rejects.toThrow(/^4: /);
  });

  it.each(["default-action", "repeat-last"] as const)(
    "behaviour 37: after a missed deadline (%s), the agent's next move is played in its next turn",
    async (onMissedDeadline) => {
      const clock = turns({ deadlineMs: 50, onMissedDeadline });
      const { one, two, time, log } = await setUp(2, { clock });
      const second = two.step();
      await one.step();
      const first = one.step({ add: 1 });
      await second;
      await quiet();
      time.advance(50);
      await first;
      // The action arrives in the other agent's turn, and is played when the agent's own turn
      // begins.
      const late = two.step({ add: 2 });
      expect(await isBlocked(late)).toBe(true);
      const next = one.step({ add: 4 });
      expect(await isBlocked(next)).toBe(false);
      expect((await next).observations["total"]).toBe(7);
      expect(log.slice(-2)).toEqual(["tick 1:4", "tick 2:2"]);
      void one.step({ add: 8 });
      expect((await late).observations["total"]).toBe(15);
    },
  );

  it("behaviour 37: after a missed deadline, an agent that has moved before also plays its next move", async () => {
    const clock = turns({ deadlineMs: 50, onMissedDeadline: "default-action" });
    const { one, two, time, log } = await setUp(2, { clock });
    const begun = two.step();
    await one.step();
    const first = one.step({ add: 1 });
    await begun;
    const second = two.step({ add: 2 });
    await first;
    const third = one.step({ add: 3 });
    await second;
    await quiet();
    time.advance(50);
    await third;
    const late = two.step({ add: 4 });
    await quiet();
    await one.step({ add: 5 });
    expect(log.slice(-3)).toEqual(["tick ", "tick 1:5", "tick 2:4"]);
    void one.step();
    expect((await late).observations["total"]).toBe(15);
  });

  it("behaviour 37: an agent that no other waits for is not late", async () => {
    const clock = turns({ deadlineMs: 50, onMissedDeadline: "default-action" });
    const { one, two, time, log } = await setUp(2, { clock });
    const second = two.step();
    await one.step();
    await quiet();
    time.advance(50);
    await second;
    const idle = log.length;
    for (let periods = 0; periods < 10; periods++) {
      time.advance(50);
      await quiet();
    }
    expect(log.length).toBe(idle);
    const waiting = one.step({ add: 1 });
    expect(await isBlocked(waiting)).toBe(true);
    time.advance(49);
    await quiet();
    expect(log.length).toBe(idle);
    time.advance(1);
    await quiet();
    expect(log.slice(-2)).toEqual(["tick ", "tick 1:1"]);
    void waiting.catch(() => {});
  });

  it("behaviour 41: a first step that waits for its turn is answered in the new sequence", async () => {
    const { one, two, host, world } = await setUp(2, { clock: turns() });
    const second = two.step();
    await one.step();
    const reset = host.resetWorld(world, { start: 9 });
    expect((await one.step()).state).toBe("INTERRUPTED");
    await reset;
    void one.step().then(() => one.step());
    expect(await second).toMatchObject({
      state: "RUNNING",
      observations: { total: 9, sequence: 2 },
    });
  });
});

describe("realtime", () => {
  it("behaviour 38: a reset ends the agent's actions in force", async () => {
    const clock = realtime({ ticksPerSecond: 10 });
    const { one, two, time, log } = await setUp(2, { clock });
    await Promise.all([one.step(), two.step()]);
    const step = one.step({ add: 5 });
    await quiet();
    time.advance(100);
    await step;
    await one.reset();
    await one.step();
    time.advance(100);
    expect(log.slice(-4)).toEqual(["tick 1:5", "exit 1", "enter 1", "tick "]);
  });
});

describe("wakeUp", () => {
  it("behaviour 24: a long sleep in a slow world does not delay other worlds for long", async () => {
    let ticks = 0;
    const laborious = defineWorld({
      name: "laborious",
      actions: { sleep: t.int32() },
      observations: {},
      clock: wakeUp({ action: "sleep" }),
      create: () => ({
        step() {
          ticks += 1;
          const until = performance.now() + 2;
          while (performance.now() < until) {}
        },
        observe: {},
      }),
    });
    const server = createEnvironmentServer({ worlds: [laborious] });
    const [sleeper, other] = [connectPeer(server), connectPeer(server)];
    await sleeper.join(await sleeper.createWorld());
    await sleeper.step();
    void sleeper.step({ sleep: 10_000 });
    await other.createWorld();
    expect(ticks).toBeGreaterThan(0);
    expect(ticks).toBeLessThan(200);
    sleeper.drop();
  });

  it("behaviour 24: an agent that sleeps forever does not delay other worlds", async () => {
    const dreamless = defineWorld({
      name: "dreamless",
      actions: { sleep: t.float32() },
      observations: {},
      clock: wakeUp({ action: "sleep" }),
      create: () => ({ step() {}, observe: {} }),
    });
    const server = createEnvironmentServer({ worlds: [dreamless], limits: { idleStreamMs: 0 } });
    const [sleeper, other] = [connectPeer(server), connectPeer(server)];
    await sleeper.join(await sleeper.createWorld());
    await other.join(await other.createWorld());
    await sleeper.step();
    void sleeper.step({ sleep: Number.POSITIVE_INFINITY });
    await other.step();
    expect((await other.step({ sleep: 5000 })).state).toBe("RUNNING");
    sleeper.drop();
    await quiet();
    expect(server.sessionCount).toBe(1);
    await other.destroyWorld("dreamless-1");
  });
});
