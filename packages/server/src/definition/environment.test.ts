// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import { defineEnvironment } from "./environment.ts";
import { optional, withDefault } from "./settings.ts";

/** Walks from 0 to `goal`; -13 is out of bounds. The observation `start` is a random number. */
const walk = defineEnvironment({
  name: "walk",
  settings: { goal: withDefault(t.int32(), 3), seed: optional(t.uint64()) },
  joinSettings: { name: withDefault(t.string(), "nobody") },
  actions: { legs: { dx: t.int32() } },
  observations: { body: { x: t.int32() }, start: t.int32(), name: t.string() },
  agents: { max: 3 },
  create({ settings, joinSettings, random }) {
    let x = 0;
    const start = random.integer(0, 1_000_000);
    const observe = () => ({ body: { x }, start, name: joinSettings.name });
    return {
      async reset() {
        x = 0;
        return observe();
      },
      step({ legs }) {
        x += legs?.dx ?? 0;
        if (x === -13) {
          throw new Error("out of bounds");
        }
        const done = x >= settings.goal;
        return {
          observation: observe(),
          reward: done ? 1 : -1,
          ...(done ? { state: "terminated" } : {}),
        };
      },
    };
  },
});

async function setUp(count: number) {
  const server = createEnvironmentServer({ worlds: [walk] });
  const world = await connectPeer(server).createWorld({ seed: 5n });
  const peers = await joinedPeers(server, world, count);
  const [one, two] = peers as [Peer, Peer];
  return { server, world, one, two };
}

describe("defineEnvironment", () => {
  it("numbers its agents in events, like a shared world", async () => {
    const told: [string, number][] = [];
    const server = createEnvironmentServer({
      worlds: [walk],
      onEvent: (event) => {
        if (event.kind === "agent-joined" || event.kind === "agent-left") {
          told.push([event.kind, event.agent]);
        }
      },
    });
    const world = await connectPeer(server).createWorld({ seed: 5n });
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await two.leave();
    await one.leave();
    expect(told).toEqual([
      ["agent-joined", 1],
      ["agent-joined", 2],
      ["agent-left", 2],
      ["agent-left", 1],
    ]);
  });

  it("gives each agent its own instance, which waits for no other agent", async () => {
    const { one, two } = await setUp(2);
    const first = await one.step();
    expect(first).toMatchObject({ state: "RUNNING", observations: { "body.x": 0, reward: 0 } });
    expect(await one.step({ "legs.dx": 2 })).toMatchObject({
      state: "RUNNING",
      observations: { "body.x": 2, reward: -1 },
    });
    expect((await two.step()).observations["body.x"]).toBe(0);
    expect(await one.step({ "legs.dx": 1 })).toMatchObject({
      state: "TERMINATED",
      observations: { "body.x": 3, reward: 1 },
    });
    expect((await one.step()).observations["body.x"]).toBe(0);
  });

  it("gives each agent its own seed, determined by the world's seed and the order of joining", async () => {
    const starts = async () => {
      const { one, two } = await setUp(2);
      return [(await one.step()).observations["start"], (await two.step()).observations["start"]];
    };
    const [one, two] = await starts();
    expect(one).not.toBe(two);
    expect(await starts()).toEqual([one, two]);
  });

  it("passes the settings of the join, and refuses more agents than `agents.max`", async () => {
    const { server, world } = await setUp(2);
    const third = connectPeer(server);
    await third.join(world, { name: "ada" });
    expect((await third.step()).observations["name"]).toBe("ada");
    await expect(connectPeer(server).join(world)).rejects.toThrow(/^8: .*room for 3/);
    await third.leave();
    await connectPeer(server).join(world);
  });

  it("behaviour 24: an instance that throws affects no other agent", async () => {
    const { server, world, one, two } = await setUp(2);
    await one.step();
    await two.step();
    await expect(one.step({ "legs.dx": -13 })).rejects.toThrow(/^13: .*out of bounds/);
    expect((await two.step({ "legs.dx": 1 })).observations["body.x"]).toBe(1);
    expect(server.worldNames()).toEqual([world]);
    await one.leave();
    await one.join(world);
    expect((await one.step()).state).toBe("RUNNING");
  });

  it.each([
    ["leaves", (peer: Peer) => peer.leave()],
    ["dies", async (peer: Peer) => peer.drop()],
    ["breaks it", (peer: Peer) => expect(peer.step()).rejects.toThrow(/broken/)],
  ])("closes an instance once when its agent %s", async (_how, end) => {
    let closed = 0;
    const fragile = defineEnvironment({
      name: "fragile",
      actions: {},
      observations: {},
      create: () => ({
        reset: () => ({}),
        step: () => {
          throw new Error("broken");
        },
        close: () => {
          closed += 1;
        },
      }),
    });
    const server = createEnvironmentServer({ worlds: [fragile] });
    const world = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await one.step();
    await two.step();
    await end(one);
    await quiet();
    expect(closed).toBe(1);
    await server.close();
    expect(closed).toBe(2);
  });

  it("closes an instance that `create` resolves after the world was destroyed", async () => {
    let closed = 0;
    let finish = (): void => {};
    const slow = defineEnvironment({
      name: "slow",
      actions: {},
      observations: {},
      create: async () => {
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
        return {
          reset: () => ({}),
          step: () => ({ observation: {} }),
          close: () => {
            closed += 1;
          },
        };
      },
    });
    const server = createEnvironmentServer({ worlds: [slow] });
    const peer = connectPeer(server);
    peer.join(await peer.createWorld()).catch(() => {});
    await quiet();
    await server.close();
    finish();
    await quiet();
    expect(closed).toBe(1);
  });

  it("behaviour 41: a reset of the world resets every instance", async () => {
    const { world, one, two } = await setUp(2);
    await one.step();
    await two.step();
    const reset = one.resetWorld(world);
    expect(await isBlocked(reset)).toBe(true);
    expect((await two.step()).state).toBe("INTERRUPTED");
    await reset;
    expect((await one.step()).state).toBe("RUNNING");
  });

  it("behaviour 30: makes a world that can be destroyed once all agents have left", async () => {
    const { server, world, one, two } = await setUp(2);
    const host = connectPeer(server);
    await expect(host.destroyWorld(world)).rejects.toThrow(/^9: .*2 agents/);
    await expect(one.destroyWorld(world)).rejects.toThrow(/^9: .*leave it/);
    await one.leave();
    two.drop();
    await expect.poll(() => host.destroyWorld(world).then(() => "gone", String)).toBe("gone");
    expect(server.worldNames()).toEqual([]);
  });

  it("behaviour 30: makes a world that answers every destroy when its last agent leaves", async () => {
    const still = defineEnvironment({
      name: "still",
      actions: {},
      observations: {},
      onDestroy: "drain",
      create: () => ({ reset: () => ({}), step: () => ({ observation: {} }) }),
    });
    await using server = createEnvironmentServer({ worlds: [still] });
    const world = await connectPeer(server).createWorld();
    const [one] = (await joinedPeers(server, world, 1)) as [Peer];
    const destroys = [
      connectPeer(server).destroyWorld(world),
      connectPeer(server).destroyWorld(world),
    ];
    expect(await isBlocked(Promise.race(destroys))).toBe(true);
    await one.leave();
    await Promise.all(destroys);
    expect(server.worldNames()).toEqual([]);
  });
});
