// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../../testing/tally.ts";
import { defineWorld } from "../definition/world.ts";
import {
  createEnvironmentServer,
  type EnvironmentServerOptions,
} from "../host/environment-server.ts";

function start(options: TallyOptions = {}, server: Partial<EnvironmentServerOptions> = {}) {
  return createEnvironmentServer({ worlds: [tally(options)], ...server });
}

describe("create, join, leave, destroy", () => {
  it("behaviour 21: names a setting that is missing, unknown or invalid", async () => {
    await using server = start();
    const peer = connectPeer(server);
    await expect(peer.createWorld({ lenght: 3 })).rejects.toThrow(/3: .*"lenght".*length/);
    await expect(peer.createWorld({ length: 2.5 })).rejects.toThrow(/length/);
    await expect(peer.createWorld({ length: 0 })).rejects.toThrow(/length/);
    const world = await peer.createWorld();
    await expect(peer.join(world, { nickname: "x" })).rejects.toThrow(/3: .*"nickname"/);
    await peer.join(world);
    await expect(peer.reset({ nickname: "x" })).rejects.toThrow(/3: .*"nickname"/);
    await expect(peer.resetWorld(world, { length: 9 })).rejects.toThrow(/3: .*"length"/);
  });

  it("behaviour 22: world names are unique; a server with one world has the empty name", async () => {
    await using many = start();
    const peer = connectPeer(many);
    expect(await peer.createWorld()).not.toBe(await peer.createWorld());
    await using one = start({}, { singleWorld: true });
    const other = connectPeer(one);
    expect(await other.createWorld()).toBe("");
    await expect(other.createWorld()).rejects.toThrow(/^6: /);
    await other.destroyWorld("");
    expect(await other.createWorld()).toBe("");
  });

  it("behaviour 23: a premade world needs no create", async () => {
    await using server = start({}, { singleWorld: true, premade: [{ settings: { start: 7 } }] });
    await server.ready;
    const peer = connectPeer(server);
    await peer.join("");
    expect((await peer.step()).observations["total"]).toBe(7);
  });

  it("behaviour 24: worlds are independent, and one that throws ends no other", async () => {
    const broken = defineWorld({
      name: "broken",
      actions: { number: t.int32() },
      observations: {},
      create: () => ({
        step(actions) {
          for (const { number } of actions.values()) {
            if (number === 13) {
              throw new Error("unlucky");
            }
          }
        },
        observe: {},
      }),
    });
    const events: string[] = [];
    await using server = createEnvironmentServer({
      worlds: [tally(), broken],
      onEvent: (event) => {
        if (event.kind === "world-failed") {
          events.push(event.error.message);
        }
      },
    });
    const host = connectPeer(server);
    const good = await host.createWorld({ world_type: "tally", length: 100 });
    const bad = await host.createWorld({ world_type: "broken" });
    const [happy] = (await joinedPeers(server, good, 1)) as [Peer];
    const [one, two] = (await joinedPeers(server, bad, 2)) as [Peer, Peer];
    await happy.step();
    await Promise.all([one.step(), two.step()]);
    const waiting = one.step({ number: 1 });
    const rejected = expect(waiting).rejects.toThrow(/13: .*broken-2.*unlucky/);
    await expect(two.step({ number: 13 })).rejects.toThrow(/13: .*unlucky/);
    await rejected;
    await expect(two.step()).rejects.toThrow(/unlucky/);
    await expect(host.join(bad)).rejects.toThrow(/^5: /);
    expect((await happy.step({ add: 1 })).observations["total"]).toBe(1);
    await two.leave();
    await two.join(good);
    expect(events).toHaveLength(1);
  });

  it("behaviour 25: the creator of a world need not join it", async () => {
    await using server = start();
    const world = await connectPeer(server).createWorld();
    const [peer] = (await joinedPeers(server, world, 1)) as [Peer];
    expect((await peer.step()).state).toBe("RUNNING");
  });

  it("behaviour 26: specs come with the join, differ by its settings, and change with a reset only", async () => {
    await using server = start();
    const world = await connectPeer(server).createWorld();
    const [narrow, wide] = [connectPeer(server), connectPeer(server)];
    await narrow.join(world, { width: 1 });
    await wide.join(world, { width: 3 });
    expect(narrow.observations?.byName.get("row")?.spec.shape).toEqual([1]);
    expect(wide.observations?.byName.get("row")?.spec.shape).toEqual([3]);
    const [, { observations }] = await Promise.all([narrow.step(), wide.step()]);
    expect(observations["row"]).toEqual([2, 2, 2]);
    await narrow.reset({ width: 4 });
    expect(narrow.observations?.byName.get("row")?.spec.shape).toEqual([4]);
  });

  it("behaviour 27: refuses a second join, and more agents than the world has room for", async () => {
    await using server = start();
    const peer = connectPeer(server);
    const world = await peer.createWorld({ max_agents: 1 });
    await peer.join(world);
    await expect(peer.join(world)).rejects.toThrow(/^9: .*leave it first/);
    await expect(connectPeer(server).join(world)).rejects.toThrow(/^8: .*room for 1/);
    await peer.leave();
    await connectPeer(server).join(world);
  });

  it("behaviour 28: the first step of a world's first sequence waits for enough agents", async () => {
    await using server = start();
    const peer = connectPeer(server);
    const world = await peer.createWorld({ min_agents: 2 });
    await peer.join(world);
    const first = peer.step();
    expect(await isBlocked(first)).toBe(true);
    const [other] = (await joinedPeers(server, world, 1)) as [Peer];
    await Promise.all([other.step(), first]);
    await other.leave();
    const alone = [];
    for (let i = 0; i < 5; i++) {
      alone.push((await peer.step()).state);
    }
    expect(alone).toEqual(["RUNNING", "RUNNING", "TERMINATED", "RUNNING", "RUNNING"]);
  });

  it("behaviour 29: leaving when not joined does nothing, and rejoining works", async () => {
    await using server = start();
    const peer = connectPeer(server);
    await peer.leave();
    const world = await peer.createWorld();
    await peer.join(world);
    await peer.step();
    await peer.leave();
    await peer.leave();
    await peer.join(world);
    expect((await peer.step()).state).toBe("RUNNING");
  });

  it("behaviour 29: when an agent leaves, the others continue", async () => {
    await using server = start({ onLeave: "continue" });
    const world = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    const waiting = one.step({ add: 1 });
    await two.leave();
    expect((await waiting).state).toBe("RUNNING");
  });

  it("behaviour 29: when an agent leaves, the others are blocked until another has joined", async () => {
    await using server = start({ onLeave: "block" });
    const world = await connectPeer(server).createWorld({ length: 100 });
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    const waiting = one.step({ add: 1 });
    await two.leave();
    expect(await isBlocked(waiting)).toBe(true);
    const [three] = (await joinedPeers(server, world, 1)) as [Peer];
    expect((await waiting).observations["total"]).toBe(1);
    expect((await three.step()).state).toBe("RUNNING");
  });

  it("behaviour 29: when an agent leaves, the sequence of the others is cut short", async () => {
    await using server = start({ onLeave: "terminate" });
    const world = await connectPeer(server).createWorld({ length: 100 });
    const [one, two, three] = (await joinedPeers(server, world, 3)) as [Peer, Peer, Peer];
    await Promise.all([one.step(), two.step(), three.step()]);
    const waiting = one.step({ add: 1 });
    await two.leave();
    expect((await waiting).state).toBe("INTERRUPTED");
    expect((await three.step()).state).toBe("INTERRUPTED");
    const again = await Promise.all([one.step(), three.step()]);
    expect(again.map(({ state }) => state)).toEqual(["RUNNING", "RUNNING"]);
  });

  it("behaviour 30: destroys a world from any connection, unless the world is unknown or has agents", async () => {
    const log: TallyEvent[] = [];
    await using server = start({ log });
    const peer = connectPeer(server);
    await expect(peer.destroyWorld("nowhere")).rejects.toThrow(/^5: .*"nowhere".*no worlds/);
    const world = await peer.createWorld();
    await peer.join(world);
    await expect(peer.destroyWorld(world)).rejects.toThrow(/^9: .*leave it/);
    await expect(connectPeer(server).destroyWorld(world)).rejects.toThrow(/^9: .*1 agents joined/);
    await peer.leave();
    await connectPeer(server).destroyWorld(world);
    expect(log.at(-1)).toBe("destroy");
    expect(server.worldNames()).toEqual([]);
  });

  it("behaviour 30: a draining destroy waits for the agents to leave", async () => {
    await using server = start({ onDestroy: "drain" });
    const world = await connectPeer(server).createWorld();
    const [one] = (await joinedPeers(server, world, 1)) as [Peer];
    await one.step();
    const destroyed = connectPeer(server).destroyWorld(world);
    expect(await isBlocked(destroyed)).toBe(true);
    await expect(connectPeer(server).join(world)).rejects.toThrow(/^9: .*being destroyed/);
    expect((await one.step()).state).toBe("RUNNING");
    await one.leave();
    await destroyed;
  });

  it("behaviour 30: a forced destroy makes the next requests errors", async () => {
    await using server = start({ onDestroy: "force" });
    const world = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    const waiting = one.step();
    await quiet();
    const failed = expect(waiting).rejects.toThrow(/^5: .*was destroyed/);
    await connectPeer(server).destroyWorld(world);
    await failed;
    await expect(two.step()).rejects.toThrow(/^5: .*was destroyed/);
    await two.leave();
    await two.join(await two.createWorld());
    expect((await two.step()).state).toBe("RUNNING");
  });
});
