// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { type TallyOptions, tally } from "../../testing/tally.ts";
import { freeRunning } from "../clocks/free-running.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";
import type { ServerEvent } from "../host/events.ts";

async function running(count: number, options: TallyOptions = {}) {
  const time = manualTime();
  const limits = { idleStreamMs: 0 };
  const server = createEnvironmentServer({ worlds: [tally(options)], time, limits });
  const host = connectPeer(server);
  const world = await host.createWorld({ length: 100 });
  const peers = await joinedPeers(server, world, count);
  await Promise.all(peers.map((peer) => peer.step()));
  const [one, two] = peers as [Peer, Peer];
  return { time, server, host, world, one, two };
}

describe("a world", () => {
  it("behaviour 22: is gone when its destroy is answered, so that the next can take its place", async () => {
    const worlds = [tally({ onDestroy: "drain" })];
    const server = createEnvironmentServer({ worlds, singleWorld: true });
    const [host, agent] = [connectPeer(server), connectPeer(server)];
    await host.createWorld();
    await agent.join("");
    const destroyed = host.destroyWorld("");
    const created = host.createWorld();
    await agent.leave();
    await destroyed;
    expect(await created).toBe("");
  });

  it("behaviour 30: leaves no deadline behind when it has drained", async () => {
    const { one, host, server, time, world } = await running(1, { onDestroy: "drain" });
    const destroyed = [host.destroyWorld(world), connectPeer(server).destroyWorld(world)];
    await quiet();
    await one.leave();
    await Promise.all(destroyed);
    expect(time.timers).toBe(0);
  });

  it.each(["force", "drain"] as const)(
    "behaviour 30: ends for every agent that has a world of its own, with the policy %s",
    async (onDestroy) => {
      const policies = { onDestroy, perAgent: true, drainDeadlineMs: 1000 };
      const { one, two, host, server, time, world } = await running(2, policies);
      const destroyed = host.destroyWorld(world);
      if (onDestroy === "drain") {
        expect(await isBlocked(destroyed)).toBe(true);
        expect((await one.step()).state).toBe("RUNNING");
        time.advance(1000);
      }
      await destroyed;
      for (const peer of [one, two]) {
        await expect(peer.step()).rejects.toThrow(/^5: .*was destroyed/);
      }
      expect([server.worldNames(), time.timers]).toEqual([[], 0]);
    },
  );

  it("behaviour 29: can be left while it ends", async () => {
    const stuck = defineWorld({
      name: "stuck",
      actions: {},
      observations: {},
      clock: freeRunning(),
      create: () => ({ step: () => new Promise<void>(() => {}), observe: {} }),
    });
    const time = manualTime();
    const server = createEnvironmentServer({ worlds: [stuck], time });
    const world = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    const step = expect(one.step()).rejects.toThrow(/^4: .*limit: stepMs/);
    const left = two.leave();
    expect(await isBlocked(left)).toBe(true);
    time.advance(30_000);
    await Promise.all([step, left]);
  });

  it("behaviour 43: a reset does not wait for an agent that missed the deadline of the previous reset", async () => {
    const { one, two, host, world, time } = await running(2);
    const first = host.resetWorld(world);
    await one.step();
    time.advance(10_000);
    await first;
    expect((await one.step()).state).toBe("RUNNING");
    const second = host.resetWorld(world);
    expect((await one.step()).state).toBe("INTERRUPTED");
    await second;
    expect((await two.step()).state).toBe("INTERRUPTED");
  });

  it("behaviour 24: fails for all agents if `status` throws, even a DmEnvRpcError", async () => {
    const grumpy = defineWorld({
      name: "grumpy",
      actions: {},
      observations: {},
      create: () => ({
        step() {},
        observe: {},
        status() {
          throw new DmEnvRpcError("NOT_FOUND", "no idea");
        },
      }),
    });
    const server = createEnvironmentServer({ worlds: [grumpy] });
    const world = await connectPeer(server).createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    const waiting = expect(one.step()).rejects.toThrow(/^13: .*"status" failed: no idea/);
    await quiet();
    await two.leave().catch(() => {});
    await waiting;
    expect(server.worldNames()).toEqual([]);
  });

  it("fails if a hook throws the error of the world's own client connection, which is not a refusal", async () => {
    const proxy = defineWorld({
      name: "proxy",
      actions: {},
      observations: {},
      create: () => ({
        join() {
          throw new DmEnvRpcError("UNAVAILABLE", "power cut", { origin: "connection" });
        },
        step() {},
        observe: {},
      }),
    });
    const server = createEnvironmentServer({ worlds: [proxy] });
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    await expect(peer.join(world)).rejects.toThrow(/^13: .*"join" failed: power cut/);
    expect(server.worldNames()).toEqual([]);
  });

  it("behaviour 24: refuses a join from whose settings no specs can be made, and continues", async () => {
    const choosy = defineWorld({
      name: "choosy",
      joinSettings: { size: t.int32() },
      actions: {},
      observations: ({ join }) => ({ view: t.int32({ min: join.size, max: 3 }) }),
      create: () => ({ step() {}, observe: { view: () => 3 } as never }),
    });
    const server = createEnvironmentServer({ worlds: [choosy] });
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    await expect(peer.join(world, { size: 4 })).rejects.toThrow(/^3: /);
    expect(server.worldNames()).toEqual([world]);
  });

  it("behaviour 24: fails when its specs cannot be created, and the error names the function", async () => {
    const broken = defineWorld({
      name: "broken",
      actions: {},
      observations: () => {
        throw new Error("no table of views");
      },
      create: () => ({ step() {}, observe: {} as never }),
    });
    const server = createEnvironmentServer({ worlds: [broken] });
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    await expect(peer.join(world)).rejects.toThrow(/^13: .*"specs" failed: no table of views/);
    expect(server.worldNames()).toEqual([]);
  });
});

describe("a world that is over", () => {
  function frail(destroy: () => void) {
    const events: ServerEvent[] = [];
    const world = defineWorld({
      name: "frail",
      actions: {},
      observations: {},
      create: () => ({
        step() {
          throw new Error("too much");
        },
        observe: {},
        destroy,
      }),
    });
    const server = createEnvironmentServer({
      worlds: [world],
      onEvent: (event) => events.push(event),
    });
    return { server, events };
  }

  it("behaviour 24: reports its failure once", async () => {
    let destroyed = 0;
    const { server } = frail(() => {
      destroyed += 1;
    });
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld());
    await peer.step();
    await expect(peer.step()).rejects.toThrow(/^13: .*too much/);
    expect(destroyed).toBe(1);
    await server.close();
    expect(destroyed).toBe(1);
  });

  it("behaviour 24: reports two failures in order, as one error", async () => {
    const { server, events } = frail(() => {
      throw new Error("a file is locked");
    });
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld());
    await peer.step();
    await expect(peer.step()).rejects.toThrow(
      /^13: .*"step" failed: too much; then "destroy" failed: a file is locked/,
    );
    expect(events.filter(({ kind }) => kind === "world-failed")).toHaveLength(1);
  });

  it("behaviour 24: reports its failure once when it fails while it is destroyed", async () => {
    let destroyed = 0;
    const { server } = frail(() => {
      destroyed += 1;
      throw new Error("a file is locked");
    });
    const peer = connectPeer(server);
    const destroy = peer.destroyWorld(await peer.createWorld());
    await expect(destroy).rejects.toThrow(/^13: .*"destroy" failed: a file is locked/);
    expect(destroyed).toBe(1);
  });

  it("behaviour 24: is destroyed if `create` resolves after its limit", async () => {
    const log: string[] = [];
    const time = manualTime();
    let finish = (): void => {};
    const late = defineWorld({
      name: "late",
      actions: {},
      observations: {},
      create: async () => {
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
        return { step() {}, observe: {}, destroy: () => void log.push("destroy") };
      },
    });
    const limits = { createMs: 50, idleStreamMs: 0 };
    const server = createEnvironmentServer({ worlds: [late], time, limits });
    const created = expect(connectPeer(server).createWorld()).rejects.toThrow(/^4: .*createMs/);
    await quiet();
    time.advance(50);
    await created;
    finish();
    await quiet();
    expect(log).toEqual(["destroy"]);
  });
});

describe("a world that answers with promises", () => {
  function patient(clock = lockstep()) {
    const log: string[] = [];
    const world = defineWorld({
      name: "patient",
      actions: {},
      observations: {},
      clock,
      create: async () => ({
        async start({ agents }) {
          log.push(`start ${agents.join(",")}`);
        },
        async step(actions) {
          log.push(`tick ${[...actions.keys()].join(",")}`);
        },
        observe: {},
      }),
    });
    const time = manualTime();
    return { log, time, server: createEnvironmentServer({ worlds: [world], time }) };
  }

  it("behaviour 41: begins the next sequence once, whatever it waited for", async () => {
    const { log, server } = patient();
    const host = connectPeer(server);
    const world = await host.createWorld();
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    const reset = host.resetWorld(world);
    await one.step();
    const opening = one.step();
    expect(await isBlocked(opening)).toBe(true);
    await two.leave();
    await reset;
    expect((await opening).state).toBe("RUNNING");
    await quiet();
    expect(log).toEqual(["start 1,2", "start 1"]);
  });

  it("behaviour 37: ticks once when its deadline removes the last late agent", async () => {
    const clock = lockstep({ deadlineMs: 50, onMissedDeadline: "leave" });
    const { log, server, time } = patient(clock);
    const world = await connectPeer(server).createWorld();
    const peers = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all(peers.map((peer) => peer.step()));
    const waiting = peers[0].step();
    await quiet();
    time.advance(50);
    await waiting;
    await quiet();
    expect(log).toEqual(["start 1,2", "tick 1"]);
  });
});
