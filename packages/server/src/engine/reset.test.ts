// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { optional, withDefault } from "../definition/settings.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

async function running(count: number, options: TallyOptions = {}) {
  const log: TallyEvent[] = [];
  const time = manualTime();
  const server = createEnvironmentServer({ worlds: [tally({ log, ...options })], time });
  const host = connectPeer(server);
  const world = await host.createWorld({ length: 100 });
  const peers = await joinedPeers(server, world, count);
  await Promise.all(peers.map((peer) => peer.step()));
  await Promise.all(peers.map((peer) => peer.step({ add: 1 })));
  const [one, two, three] = peers as [Peer, Peer, Peer];
  return { log, time, server, host, world, one, two, three };
}

describe("a reset", () => {
  it("behaviour 38: removes one agent from the sequence, and its next step is RUNNING again", async () => {
    const { one, two, log } = await running(2);
    await one.reset();
    expect((await two.step({ add: 1 })).observations["total"]).toBe(3);
    expect(await one.step({ add: 9999 })).toMatchObject({
      state: "RUNNING",
      observations: { total: 3, sequence: 1, reward: 0 },
    });
    expect(log.slice(-3)).toEqual(["exit 1", "tick 2:1", "enter 1"]);
  });

  it("behaviour 38: of a lone agent ends the sequence, and the next step begins another", async () => {
    const { one } = await running(1);
    await one.reset();
    await one.reset();
    expect((await one.step()).observations).toMatchObject({ total: 0, sequence: 2 });
  });

  it("behaviour 38: with onReset `wait`, waits for the end of the other agents' sequence", async () => {
    const { one, two } = await running(2, { onReset: "wait" });
    const reset = one.reset();
    await two.step({ add: 1 });
    expect(await isBlocked(reset)).toBe(true);
    await two.step({ add: 100 });
    await reset;
    const steps = await Promise.all([one.step(), two.step()]);
    expect(steps.map(({ observations }) => observations["sequence"])).toEqual([2, 2]);
  });

  it("behaviour 38: with onReset `wait`, is answered at once if no agent is RUNNING, even if all agents reset", async () => {
    const { one, two } = await running(2, { onReset: "wait" });
    const resets = Promise.all([one.reset(), two.reset()]);
    await resets;
    await one.reset();
    const alone = await running(1, { onReset: "wait" });
    await alone.one.reset();
    await alone.one.reset();
  });

  it("behaviour 38: that waits is answered when the last other agent leaves", async () => {
    const { one, two } = await running(2, { onReset: "wait" });
    const reset = one.reset();
    expect(await isBlocked(reset)).toBe(true);
    two.drop();
    await reset;
  });

  it("behaviour 39: without settings is a no-op when not RUNNING, with settings applies them", async () => {
    const { one, log } = await running(1);
    await one.reset();
    const before = log.length;
    await one.reset();
    expect(log).toHaveLength(before);
    await one.reset({ width: 5 });
    expect(log.at(-1)).toBe("reset 1");
    expect((await one.step()).observations["row"]).toHaveLength(5);
  });

  it("behaviour 39: keeps the settings of earlier resets, whatever their defaults", async () => {
    const world = defineWorld({
      name: "resized",
      joinSettings: { width: optional(t.int32()), height: optional(t.int32()) },
      resetSettings: { width: withDefault(t.int32(), 9), height: withDefault(t.int32(), 9) },
      actions: {},
      observations: ({ join }) => ({ area: t.int32([join.width ?? 1, join.height ?? 1]) }),
      create: (_context) => ({ step() {}, observe: { area: () => 0 } }),
    });
    const server = createEnvironmentServer({ worlds: [world] });
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld(), { height: 4 });
    await peer.reset({ width: 2 });
    expect(peer.observations?.byName.get("area")?.spec.shape).toEqual([2, 4]);
    await peer.reset({ height: 3 });
    expect(peer.observations?.byName.get("area")?.spec.shape).toEqual([2, 3]);
  });

  it("behaviour 39: does not seed the random numbers that agents share", async () => {
    const reseeded: boolean[] = [];
    const world = defineWorld({
      name: "shared",
      resetSettings: { seed: optional(t.uint64()) },
      actions: {},
      observations: { one: t.int32() },
      create: () => ({
        start: ({ isReseeded }) => void reseeded.push(isReseeded),
        step() {},
        observe: { one: () => 1 },
      }),
    });
    const server = createEnvironmentServer({ worlds: [world] });
    const peer = connectPeer(server);
    const name = await peer.createWorld();
    await peer.join(name);
    await peer.step();
    await peer.reset({ seed: 4n });
    await peer.step();
    expect(reseeded).toEqual([false, false]);
  });

  it("behaviour 40: always answers with the specs", async () => {
    const { one } = await running(1);
    one.actions = undefined;
    await one.reset();
    expect(one.actions).toBeDefined();
    one.actions = undefined;
    await one.reset();
    expect(one.actions).toBeDefined();
  });
});

describe("a reset of the world", () => {
  it("behaviour 41: waits until each RUNNING agent has received its end, with the observations that it requested", async () => {
    const { one, two, three, host, world } = await running(3);
    const blocked = two.step({ add: 5 });
    expect(await isBlocked(blocked)).toBe(true);
    const reset = host.resetWorld(world);
    expect(await blocked).toMatchObject({
      state: "INTERRUPTED",
      observations: { total: 3, sequence: 1 },
    });
    expect(await isBlocked(reset)).toBe(true);
    expect(await one.step({ add: 9999 }, ["total"])).toEqual({
      state: "INTERRUPTED",
      observations: { total: 3 },
    });
    expect(await isBlocked(reset)).toBe(true);
    const opening = one.step();
    expect(await isBlocked(opening)).toBe(true);
    expect((await three.step()).state).toBe("INTERRUPTED");
    await reset;
    const next = await Promise.all([opening, two.step(), three.step()]);
    expect(next.map(({ state, observations }) => [state, observations["sequence"]])).toEqual([
      ["RUNNING", 2],
      ["RUNNING", 2],
      ["RUNNING", 2],
    ]);
  });

  it("behaviour 41: does not give INTERRUPTED to its caller", async () => {
    const { one, two, world } = await running(2);
    const reset = one.resetWorld(world);
    expect((await two.step()).state).toBe("INTERRUPTED");
    await reset;
    const [mine] = await Promise.all([one.step(), two.step()]);
    expect(mine.state).toBe("RUNNING");
  });

  it.each<[string, (peer: Peer, world: string) => unknown, boolean]>([
    ["reset", (peer) => peer.reset(), true],
    ["reset of the world", (peer, world) => peer.resetWorld(world), true],
    ["leave", (peer) => peer.leave(), false],
    ["drop", (peer) => peer.drop(), false],
  ])(
    "behaviour 41: stops waiting for an agent that sends a %s instead of a step",
    async (_, pay, stays) => {
      const { one, two, host, world } = await running(2);
      const reset = host.resetWorld(world);
      await one.step();
      expect(await isBlocked(reset)).toBe(true);
      await pay(two, world);
      await reset;
      const opening = one.step();
      if (stays) {
        expect(await isBlocked(opening)).toBe(true);
        expect((await two.step()).state).toBe("RUNNING");
      }
      expect((await opening).state).toBe("RUNNING");
    },
  );

  it("behaviour 41: does not wait for agents that are not RUNNING; their blocked first step begins the new sequence", async () => {
    const server = createEnvironmentServer({ worlds: [tally()] });
    const host = connectPeer(server);
    const world = await host.createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    const first = one.step();
    expect(await isBlocked(first)).toBe(true);
    await host.resetWorld(world, { start: 9 });
    expect(await isBlocked(first)).toBe(true);
    await two.step();
    expect(await first).toMatchObject({ state: "RUNNING", observations: { total: 9 } });
  });

  it("behaviour 42: applies its settings to the next sequence, for any caller", async () => {
    const { one, host, world } = await running(1);
    const reset = host.resetWorld(world, { start: 50 });
    expect((await one.step()).observations["total"]).toBe(1);
    await reset;
    expect((await one.step()).observations["total"]).toBe(50);
    await one.resetWorld(world, { start: 60 });
    expect((await one.step()).observations["total"]).toBe(60);
  });

  it("behaviour 43: concurrent callers share one barrier and merge their settings in order", async () => {
    const { one, two, three, host, server, world } = await running(3);
    const other = connectPeer(server);
    const resets = [host.resetWorld(world, { start: 10 })];
    await quiet();
    resets.push(
      other.resetWorld(world, { start: 20 }),
      one.resetWorld(world),
      two.resetWorld(world),
    );
    expect(await isBlocked(Promise.race(resets))).toBe(true);
    expect((await three.step()).state).toBe("INTERRUPTED");
    await Promise.all(resets);
    const steps = await Promise.all([one.step(), two.step(), three.step()]);
    expect(steps.map(({ observations }) => observations["total"])).toEqual([20, 20, 20]);
  });

  it("behaviour 43: continues after its deadline; the straggler gets its undelivered end and delays no other agent", async () => {
    const { one, two, host, world, time } = await running(2);
    const reset = host.resetWorld(world, { start: 30 });
    await one.step();
    time.advance(9_999);
    expect(await isBlocked(reset)).toBe(true);
    time.advance(1);
    await reset;
    expect((await one.step()).observations["total"]).toBe(30);
    expect((await one.step({ add: 1 })).observations["total"]).toBe(31);
    expect(await two.step()).toMatchObject({
      state: "INTERRUPTED",
      observations: { total: 2, sequence: 1, tick: 1 },
    });
    expect((await one.step({ add: 1 })).observations["total"]).toBe(32);
    expect(await two.step()).toMatchObject({ state: "RUNNING", observations: { total: 32 } });
    const waiting = one.step();
    expect(await isBlocked(waiting)).toBe(true);
    await two.step();
    await waiting;
  });

  it("behaviour 43: begins at its deadline with those whose first steps have waited for it", async () => {
    const { one, two, host, world, time } = await running(3);
    const reset = host.resetWorld(world, { start: 30 });
    await Promise.all([one.step(), two.step()]);
    const begun = Promise.all([one.step(), two.step()]);
    expect(await isBlocked(begun)).toBe(true);
    time.advance(10_000);
    await reset;
    expect((await begun).map(({ observations }) => observations["total"])).toEqual([30, 30]);
  });

  it("behaviour 43: no later sequence waits for a straggler that has received its end and not stepped since", async () => {
    const { one, two, host, world, time } = await running(2);
    const reset = host.resetWorld(world);
    await one.step();
    time.advance(10_000);
    await reset;
    await one.step();
    expect((await two.step()).state).toBe("INTERRUPTED");
    expect((await one.step({ add: 100 })).state).toBe("TERMINATED");
    expect((await one.step()).observations["sequence"]).toBe(3);
    // Once the straggler has stepped, sequences wait for it again.
    await two.step();
    const again = host.resetWorld(world);
    await Promise.all([one.step(), two.step()]);
    await again;
    const begun = one.step();
    expect(await isBlocked(begun)).toBe(true);
    await two.step();
    await begun;
  });

  it("behaviour 44: releases resets that wait, and steps that are blocked", async () => {
    const { one, two, three, host, world } = await running(3, { onReset: "wait" });
    const reset = one.reset();
    const step = two.step();
    expect(await isBlocked(Promise.race([reset, step]))).toBe(true);
    const world2 = host.resetWorld(world);
    await reset;
    expect((await step).state).toBe("INTERRUPTED");
    await three.step();
    await world2;
  });

  it("behaviour 42: keeps the settings that it omits", async () => {
    const world = defineWorld({
      name: "placed",
      settings: { at: t.int32() },
      resetWorldSettings: { at: withDefault(t.int32(), 0), by: t.int32() },
      actions: {},
      observations: { at: t.int32() },
      create() {
        let at = 0;
        return {
          start({ settings }) {
            at = settings.at;
          },
          step() {},
          observe: { at: () => at },
        };
      },
    });
    const server = createEnvironmentServer({ worlds: [world] });
    const peer = connectPeer(server);
    const name = await peer.createWorld({ at: 7 });
    await peer.join(name);
    for (const [settings, at] of [
      [{}, 7],
      [{ at: 3 }, 3],
      [{ by: 1 }, 3],
    ] as const) {
      await peer.resetWorld(name, settings);
      expect((await peer.step()).observations).toEqual({ at });
    }
  });

  it("behaviour 43: ends with an error when the world fails meanwhile", async () => {
    const { one, host, server, world } = await running(1, { onDestroy: "force" });
    const reset = host.resetWorld(world);
    expect(await isBlocked(reset)).toBe(true);
    const failed = expect(reset).rejects.toThrow(/^5: .*destroyed/);
    await connectPeer(server).destroyWorld(world);
    await failed;
    await expect(one.step()).rejects.toThrow(/destroyed/);
  });
});
