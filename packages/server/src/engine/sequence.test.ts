// SPDX-License-Identifier: Apache-2.0

import { t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { defineWorld, required } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

async function setUp(count: number, options: TallyOptions = {}, settings = {}) {
  const log: TallyEvent[] = [];
  const time = manualTime();
  const server = createEnvironmentServer({ worlds: [tally({ log, ...options })], time });
  const world = await connectPeer(server).createWorld(settings);
  const peers = await joinedPeers(server, world, count);
  const [one, two, three] = peers as [Peer, Peer, Peer];
  return { log, time, server, world, peers, one, two, three };
}

const states = (steps: readonly { state: string }[]) => steps.map(({ state }) => state);

describe("a step", () => {
  it("behaviour 31: returns nothing when nothing is requested, and computes nothing", async () => {
    const computed: string[] = [];
    const compute = (name: string) => () => {
      computed.push(name);
      return computed.length;
    };
    const world = defineWorld({
      name: "costly",
      actions: {},
      observations: { left: t.int32(), right: t.int32() },
      create: () => ({
        step: () => {},
        observe: { left: compute("left"), right: compute("right") },
      }),
    });
    const server = createEnvironmentServer({ worlds: [world] });
    const peers = await joinedPeers(server, await connectPeer(server).createWorld(), 2);
    const step = (...requested: string[]) =>
      Promise.all(peers.map((peer) => peer.step({}, requested)));
    const answers = [...(await step()), ...(await step())];
    expect(answers.map(({ observations }) => observations)).toEqual([{}, {}, {}, {}]);
    expect(computed).toEqual([]);
    await step("right");
    expect(computed).toEqual(["right", "right"]);
  });

  it("behaviour 32: that is the first of a sequence ignores its actions, even invalid ones", async () => {
    const { one, log } = await setUp(1);
    const step = await one.step({ add: 5000 });
    expect(step).toMatchObject({
      state: "RUNNING",
      observations: { total: 0, tick: 0, reward: 0 },
    });
    expect(log.filter((event) => event.startsWith("tick"))).toEqual([]);
  });

  it("behaviour 33: that is sent ahead may continue into the next sequence", async () => {
    const { one } = await setUp(1, {}, { length: 2 });
    const steps = await Promise.all(Array.from({ length: 7 }, () => one.step({ add: 1 })));
    expect(steps.map(({ state, observations }) => `${state} ${observations["total"]}`)).toEqual([
      "RUNNING 0",
      "RUNNING 1",
      "TERMINATED 2",
      "RUNNING 0",
      "RUNNING 1",
      "TERMINATED 2",
      "RUNNING 0",
    ]);
  });

  it("behaviour 34: may omit actions", async () => {
    const { one, log } = await setUp(1);
    await one.step();
    await one.step({});
    await one.step({ add: 2 });
    expect(log.slice(-2)).toEqual(["tick 1:-", "tick 1:2"]);
  });

  it("behaviour 34: must have the actions that the world requires, except for the first", async () => {
    const driven: unknown[] = [];
    const world = defineWorld({
      name: "driven",
      actions: { go: required(t.int32()), turn: t.int32() },
      observations: {},
      create: (_context) => ({
        step: (actions) => void driven.push(...actions.values()),
        observe: {},
      }),
    });
    const server = createEnvironmentServer({ worlds: [world] });
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld());
    expect((await peer.step()).state).toBe("RUNNING");
    const missing = /^3: the action "go" \(UID \d+\) is missing/;
    await expect(peer.step()).rejects.toThrow(missing);
    await expect(peer.step({ turn: 1 })).rejects.toThrow(missing);
    expect(driven).toEqual([]);
    await peer.step({ turn: 2, go: 1 });
    await peer.step({ go: 3 });
    expect(driven).toEqual([{ go: 1, turn: 2 }, { go: 3 }]);
  });

  it("behaviour 35: an unknown requested UID is an error that names it; a repeated one is redundant", async () => {
    const { one } = await setUp(1);
    await expect(one.step({}, ["nonsense"])).rejects.toThrow(/UID 999/);
    expect((await one.step({}, ["tick", "tick"])).observations).toEqual({ tick: 0 });
    expect((await one.step({}, ["tick"])).observations).toEqual({ tick: 1 });
    expect((await one.step({}, ["sequence"])).observations).toEqual({ sequence: 1 });
  });

  it("behaviour 36: an observation that does not fit its spec is the world's fault", async () => {
    const broken = defineWorld({
      name: "broken",
      actions: {},
      observations: { tick: t.int32() },
      create: () => ({ step() {}, observe: { tick: () => 1.5 } }),
    });
    const server = createEnvironmentServer({ worlds: [broken] });
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld());
    await expect(peer.step()).rejects.toThrow(/^13: .*observe\.tick/);
    expect(server.worldNames()).toEqual([]);
  });
});

describe("a sequence that agents share", () => {
  it("behaviour 60: begins when every joined agent has stepped, and again for the next one", async () => {
    const { one, two, log } = await setUp(2, {}, { length: 1 });
    const first = one.step();
    expect(await isBlocked(first)).toBe(true);
    await two.step();
    await first;
    expect(states(await Promise.all([one.step(), two.step()]))).toEqual([
      "TERMINATED",
      "TERMINATED",
    ]);
    const again = two.step();
    expect(await isBlocked(again)).toBe(true);
    expect(states(await Promise.all([one.step(), again]))).toEqual(["RUNNING", "RUNNING"]);
    expect(log.filter((event) => event.startsWith("start"))).toEqual(["start 1,2", "start 1,2"]);
  });

  it("behaviour 60: begins at the deadline without those that did not step", async () => {
    const clock = lockstep({ deadlineMs: 100, onMissedDeadline: "default-action" });
    const { one, two, time, log } = await setUp(2, { clock });
    const first = one.step();
    expect(await isBlocked(first)).toBe(true);
    time.advance(100);
    expect((await first).state).toBe("RUNNING");
    expect((await one.step({ add: 3 })).observations["total"]).toBe(3);
    expect((await two.step()).observations).toMatchObject({ total: 3, reward: 0 });
    expect(log).toContain("start 1");
    expect(log).toContain("enter 2");
  });

  it("behaviour 60: begins at the deadline also without agents of the last sequence that did not step", async () => {
    const clock = lockstep({ deadlineMs: 100, onMissedDeadline: "default-action" });
    const { one, two, time, log } = await setUp(2, { clock }, { length: 1 });
    await Promise.all([one.step(), two.step()]);
    await Promise.all([one.step(), two.step()]);
    const first = one.step();
    await quiet();
    time.advance(100);
    await first;
    expect(await isBlocked(one.step())).toBe(false);
    expect(log.filter((event) => event.startsWith("start"))).toEqual(["start 1,2", "start 1"]);
  });

  it("behaviour 61: an agent without an outstanding step receives the end, with the state at that time, at its next step", async () => {
    const clock = lockstep({ deadlineMs: 10, onMissedDeadline: "default-action" });
    const { one, two, time } = await setUp(2, { clock }, { length: 2 });
    await Promise.all([one.step(), two.step()]);
    for (let i = 0; i < 2; i++) {
      const waiting = one.step({ add: 4 });
      await quiet();
      time.advance(10);
      await waiting;
    }
    const opening = one.step();
    await quiet();
    time.advance(10);
    expect((await opening).state).toBe("RUNNING");
    await one.step({ add: 1 });
    const owed = await two.step({ add: 9999 });
    expect(owed).toMatchObject({
      state: "TERMINATED",
      observations: { total: 8, tick: 2, sequence: 1, reward: 0 },
    });
    expect(await two.step()).toMatchObject({
      state: "RUNNING",
      observations: { total: 1, sequence: 2 },
    });
  });

  it("behaviour 62: a late joiner enters at its first step", async () => {
    const { one, server, world, log } = await setUp(1);
    await one.step();
    await one.step({ add: 1 });
    const [late] = (await joinedPeers(server, world, 1)) as [Peer];
    expect((await late.step()).observations).toMatchObject({ total: 1, tick: 1, reward: 0 });
    const waiting = one.step({ add: 1 });
    expect(await isBlocked(waiting)).toBe(true);
    await late.step({ add: 5 });
    expect((await waiting).observations["total"]).toBe(7);
    expect(log).toContain("enter 2");
  });

  it("behaviour 63: a late joiner has no reward of the ticks before it entered", async () => {
    const paid = defineWorld({
      name: "paid",
      actions: {},
      observations: { reward: t.float32() },
      create: () => ({ step() {}, observe: { reward: () => 1 } }),
    });
    const server = createEnvironmentServer({ worlds: [paid] });
    const world = await connectPeer(server).createWorld();
    const [one] = (await joinedPeers(server, world, 1)) as [Peer];
    for (const reward of [0, 1, 1]) {
      expect((await one.step()).observations).toEqual({ reward });
    }
    const [late] = (await joinedPeers(server, world, 1)) as [Peer];
    expect((await late.step()).observations).toEqual({ reward: 0 });
    for (const { observations } of await Promise.all([one.step(), late.step()])) {
      expect(observations).toEqual({ reward: 1 });
    }
  });

  it("behaviour 62: a late joiner enters with the next sequence if lateEntry says so", async () => {
    const { one, server, world, log } = await setUp(1, { lateEntry: "next-sequence" });
    await one.step();
    const [late] = (await joinedPeers(server, world, 1)) as [Peer];
    const first = late.step();
    for (let i = 0; i < 3; i++) {
      await one.step();
    }
    expect(await isBlocked(first)).toBe(true);
    await one.step();
    expect((await first).observations["sequence"]).toBe(2);
    expect(log).toContain("start 1,2");
  });

  it("behaviour 62: a refused request does not count as a first step", async () => {
    const { one, two, log } = await setUp(2);
    const first = one.step();
    await expect(two.step({}, ["nonsense"])).rejects.toThrow();
    expect(await isBlocked(first)).toBe(true);
    await two.step();
    const waiting = one.step({ add: 1 });
    await expect(two.step({ add: 5000 })).rejects.toThrow();
    expect(await isBlocked(waiting)).toBe(true);
    await two.step({ add: 2 });
    await waiting;
    expect(log.at(-1)).toBe("tick 1:1 2:2");
  });

  it("behaviour 63: rewards add up from one response to the next", async () => {
    const clock = lockstep({ deadlineMs: 10, onMissedDeadline: "repeat-last" });
    const { one, two, time } = await setUp(2, { clock }, { length: 100 });
    await Promise.all([one.step(), two.step()]);
    const both = await Promise.all([one.step({ add: 1 }), two.step({ add: 7 })]);
    expect(both.map(({ observations }) => observations["reward"])).toEqual([1, 7]);
    for (let i = 0; i < 3; i++) {
      const waiting = one.step({ add: 1 });
      await quiet();
      time.advance(10);
      await waiting;
    }
    const [, { observations }] = await Promise.all([one.step(), two.step({ add: 5 })]);
    expect(observations["reward"]).toBe(26);
  });

  it("an agent that is the only one TERMINATED re-enters the sequence of the others", async () => {
    const { one, two, log } = await setUp(2, {}, { length: 100 });
    await Promise.all([one.step(), two.step()]);
    const ended = await Promise.all([one.step({ add: 100 }), two.step({ add: 1 })]);
    expect(states(ended)).toEqual(["TERMINATED", "RUNNING"]);
    expect((await two.step({ add: 1 })).observations["total"]).toBe(102);
    expect((await one.step()).observations).toMatchObject({ total: 102, reward: 0 });
    expect(log).toContain("enter 1");
  });
});

describe("a deadline", () => {
  const late = async (onMissedDeadline: "wait" | "default-action" | "repeat-last" | "leave") => {
    const set = await setUp(
      2,
      { clock: lockstep({ deadlineMs: 50, onMissedDeadline }) },
      { length: 100 },
    );
    const { one, two, time } = set;
    await Promise.all([one.step(), two.step()]);
    await Promise.all([one.step({ add: 1 }), two.step({ add: 2 })]);
    const waiting = one.step({ add: 1 });
    await quiet();
    time.advance(49);
    expect(await isBlocked(waiting)).toBe(true);
    time.advance(1);
    return { ...set, waiting };
  };

  it("behaviour 37: with the policy `wait`, is only counted", async () => {
    const { waiting, two } = await late("wait");
    expect(await isBlocked(waiting)).toBe(true);
    await two.step();
    await waiting;
  });

  it("behaviour 37: lets the world advance without the slow agent's actions", async () => {
    const { waiting, log } = await late("default-action");
    await waiting;
    expect(log.at(-1)).toBe("tick 1:1");
  });

  it("behaviour 37: lets the world advance with the slow agent's last actions", async () => {
    const { waiting, log } = await late("repeat-last");
    await waiting;
    expect(log.at(-1)).toBe("tick 1:1 2:2");
  });

  it("behaviour 37: removes the slow agent from the world", async () => {
    const { waiting, two, world, log } = await late("leave");
    await waiting;
    expect(log.slice(-2)).toEqual(["leave 2", "tick 1:1"]);
    await expect(two.step()).rejects.toThrow(/^4: .*50 ms.*join again/);
    await two.join(world);
    expect((await two.step()).state).toBe("RUNNING");
  });
});
