// SPDX-License-Identifier: Apache-2.0

import { t } from "@dm-env-rpc/tensor-codec";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, Peer, quiet } from "../../testing/peer.ts";
import { type TallyEvent, tally } from "../../testing/tally.ts";
import { realtime } from "../clocks/realtime.ts";
import { defineEnvironment } from "../definition/environment.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "./environment-server.ts";

/** The status of a stream whose agent has nothing to receive any more. */
const drained = {
  code: "UNAVAILABLE",
  message: expect.stringMatching(/^the server is shutting down; leave/),
};

async function playing(agents: number) {
  const time = manualTime();
  const log: TallyEvent[] = [];
  const server = createEnvironmentServer({ worlds: [tally({ log })], time });
  const host = connectPeer(server);
  const world = await host.createWorld({ length: 1000 });
  const peers = await joinedPeers(server, world, agents);
  await Promise.all(peers.map((peer) => peer.step()));
  return { server, host, world, peers, time, log };
}

describe("closing", () => {
  it("delivers INTERRUPTED with the final observations to every RUNNING agent, then ends its stream", async () => {
    const { server, host, peers, log } = await playing(2);
    const [one, two] = peers as [Peer, Peer];
    await Promise.all([one.step({ add: 2 }), two.step({ add: 3 })]);
    const waiting = one.step({ add: 50 });
    await quiet();
    const closed = server.close({ graceMs: 1000 });
    expect(await waiting).toMatchObject({ state: "INTERRUPTED", observations: { total: 5 } });
    expect(await one.closed).toMatchObject(drained);
    expect(await host.closed).toMatchObject(drained);
    expect(await isBlocked(closed)).toBe(true);
    expect(await two.step({ add: 7 })).toMatchObject({
      state: "INTERRUPTED",
      observations: { total: 5, tick: 1 },
    });
    expect(await two.closed).toMatchObject(drained);
    await closed;
    expect(log.at(-1)).toBe("destroy");
    expect(server.worldNames()).toEqual([]);
  });

  it("answers outstanding requests before it ends a stream", async () => {
    const { server, world, peers } = await playing(1);
    const [one] = peers as [Peer];
    const closed = server.close({ graceMs: 1000 });
    const [told, next, left] = await Promise.allSettled([one.step(), one.step(), one.leave()]);
    expect(told).toMatchObject({ value: { state: "INTERRUPTED" } });
    expect(next).toMatchObject({ reason: { message: expect.stringMatching(/^14: .*shutting/) } });
    expect(left.status).toBe("fulfilled");
    await closed;
    expect(await one.closed).toMatchObject(drained);
    expect(world).toBe("tally-1");
  });

  it("refuses creates, joins, first steps and streams meanwhile", async () => {
    const { server, world, peers } = await playing(1);
    const [one] = peers as [Peer];
    const [late, idle] = [connectPeer(server), connectPeer(server)];
    await idle.join(world);
    const refusals = Promise.allSettled([late.createWorld(), late.join(world), idle.step()]);
    const closed = server.close({ graceMs: 1000 });
    for (const refusal of await refusals) {
      expect(refusal).toMatchObject({
        reason: { message: expect.stringMatching(/^14: .*shutting/) },
      });
    }
    const [client, stream] = memoryStreamPair();
    server.accept(stream);
    expect(await new Peer(client).closed).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(/shutting down/),
    });
    await one.step();
    await closed;
  });

  it("answers agents that wait for a first step", async () => {
    const server = createEnvironmentServer({ worlds: [tally()] });
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld({ min_agents: 2 }));
    const blocked = expect(peer.step()).rejects.toThrow(/^14: .*shutting down/);
    await quiet();
    await server.close({ graceMs: 1000 });
    await blocked;
    expect(await peer.closed).toMatchObject(drained);
  });

  it("answers agents that wait for a reset, of themselves and of the world", async () => {
    const server = createEnvironmentServer({ worlds: [tally({ onReset: "wait" })] });
    const host = connectPeer(server);
    const world = await host.createWorld({ length: 1000 });
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    const reset = one.reset();
    const resetWorld = host.resetWorld(world);
    await quiet();
    const closed = server.close({ graceMs: 1000 });
    await reset;
    expect((await two.step()).state).toBe("INTERRUPTED");
    await resetWorld;
    await closed;
  });

  it("cuts off agents with undelivered ends at the deadline, and destroys the worlds", async () => {
    const { server, peers, time, log } = await playing(2);
    const closed = server.close({ graceMs: 1000 });
    await quiet();
    time.advance(999);
    expect(await isBlocked(closed)).toBe(true);
    time.advance(1);
    await closed;
    for (const peer of peers) {
      expect(await peer.closed).toMatchObject({
        code: "UNAVAILABLE",
        message: expect.stringMatching(/waited 1000 ms/),
      });
    }
    expect(log.slice(-3)).toEqual(["leave 1", "leave 2", "destroy"]);
    expect(time.timers).toBe(0);
  });

  it("returns the same promise to all callers, and a later call may shorten the grace period", async () => {
    const { server, peers, time, log } = await playing(1);
    const first = server.close({ graceMs: 60_000 });
    const second = server.close({ graceMs: 90_000 });
    expect(await isBlocked(Promise.race([first, second]))).toBe(true);
    time.advance(3000);
    await server[Symbol.asyncDispose]();
    await Promise.all([first, second]);
    expect(await (peers[0] as Peer).closed).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(/waited 3000 ms/),
    });
    await server.close({ graceMs: 1000 });
    expect(log.filter((entry) => entry === "destroy")).toEqual(["destroy"]);
  });

  it("cuts off streams at once without a grace period, and reports no wait", async () => {
    const { server, peers } = await playing(1);
    await server.close();
    expect(String(await (peers[0] as Peer).closed)).toMatch(/the server is shutting down; connect/);
  });

  it("also interrupts the agents of single-agent environments, and removes environments without agents", async () => {
    const count = defineEnvironment({
      name: "count",
      actions: { add: t.int32() },
      observations: { total: t.int32() },
      create() {
        let total = 0;
        return {
          reset: () => ({ total }),
          step({ add = 0 }) {
            total += add;
            return { observation: { total }, reward: 0 };
          },
        };
      },
    });
    const time = manualTime();
    const server = createEnvironmentServer({
      worlds: [count],
      time,
      limits: { idleWorldMs: 1000, maxAgentsPerWorld: 2, idleStreamMs: 0 },
    });
    const host = connectPeer(server);
    const [world, left] = [await host.createWorld(), await host.createWorld()];
    const peers = await joinedPeers(server, world, 2);
    const [one, two] = peers as [Peer, Peer];
    await expect(host.join(world)).rejects.toThrow(/^8: .*limit: maxAgentsPerWorld/);
    await host.join(left);
    time.advance(5000);
    expect(server.worldNames()).toEqual([world, left]);
    await host.leave();
    time.advance(1000);
    await quiet();
    expect(server.worldNames()).toEqual([world]);
    await Promise.all([one.step(), two.step()]);
    await one.step({ add: 4 });
    const closed = server.close({ graceMs: 1000 });
    expect(await one.step({ add: 1 })).toMatchObject({
      state: "INTERRUPTED",
      observations: { total: 4 },
    });
    expect((await two.step()).state).toBe("INTERRUPTED");
    await closed;
    expect(server.worldNames()).toEqual([]);
    expect(time.timers).toBe(0);
  });

  /**
   * Closes a real-time world while its `step` is pending. Agent one is in the sequence; `join`
   * decides what agent two has done.
   */
  async function whileTicking(join: (agent: Peer, tick: () => Promise<void>) => Promise<unknown>) {
    let finish = (): void => {};
    let ticks = 0;
    const slow = defineWorld({
      name: "slow",
      clock: realtime({ ticksPerSecond: 10, answer: "newest" }),
      actions: {},
      observations: { ticks: t.int32() },
      create: () => ({
        step() {
          ticks += 1;
          return new Promise<void>((resolve) => {
            finish = resolve;
          });
        },
        status: () => (ticks === 2 ? "terminated" : "running"),
        observe: { ticks: () => ticks },
      }),
    });
    const time = manualTime();
    const server = createEnvironmentServer({ worlds: [slow], time });
    const [one, two] = (await joinedPeers(server, await connectPeer(server).createWorld(), 2)) as [
      Peer,
      Peer,
    ];
    const begin = async (): Promise<void> => {
      time.advance(100);
      await quiet();
    };
    const tick = async (): Promise<void> => {
      await begin();
      finish();
      await quiet();
    };
    await one.step();
    await join(two, tick);
    while ((await one.step()).state !== "RUNNING") {
      // The end of the last sequence.
    }
    await begin();
    const closed = server.close({ graceMs: 1000 });
    await quiet();
    return { one, two, closed, finish: () => finish() };
  }

  it("delivers the end to an agent in a busy world, even if it requests something else first", async () => {
    const { one, two, closed, finish } = await whileTicking((agent) => agent.step());
    await expect(two.createWorld()).rejects.toThrow(/^14: /);
    await quiet();
    finish();
    await quiet();
    expect([await isBlocked(one.closed), await isBlocked(two.closed)]).toEqual([true, true]);
    for (const peer of [one, two]) {
      expect(await peer.step()).toEqual({ state: "INTERRUPTED", observations: { ticks: 1 } });
    }
    await closed;
  });

  it("does not wait for an agent that has not stepped in its sequence", async () => {
    const { one, two, closed, finish } = await whileTicking(async (agent, tick) => {
      await agent.step();
      await tick();
      await tick();
      expect((await agent.step()).state).toBe("TERMINATED");
    });
    finish();
    await quiet();
    expect([await isBlocked(one.closed), await isBlocked(two.closed)]).toEqual([true, false]);
    expect((await one.step()).state).toBe("INTERRUPTED");
    await closed;
  });

  it("delivers the end of an earlier sequence that an agent has not received", async () => {
    const { one, two, closed, finish } = await whileTicking(async (agent, tick) => {
      await agent.step();
      await tick();
      await tick();
    });
    finish();
    await quiet();
    expect([await isBlocked(one.closed), await isBlocked(two.closed)]).toEqual([true, true]);
    expect(await two.step()).toEqual({ state: "TERMINATED", observations: { ticks: 2 } });
    expect((await one.step()).state).toBe("INTERRUPTED");
    await closed;
  });

  it("does not wait for a world that hangs, and still destroys it", async () => {
    const destroyed: string[] = [];
    const stuck = defineWorld({
      name: "stuck",
      actions: { go: t.bool() },
      observations: {},
      create: () => ({
        step: () => new Promise<void>(() => {}),
        observe: {},
        destroy: () => {
          destroyed.push("stuck");
        },
      }),
    });
    const time = manualTime();
    const server = createEnvironmentServer({ worlds: [stuck], time });
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld());
    await peer.step();
    peer.step().catch(() => {});
    await quiet();
    const closed = server.close({ graceMs: 500 });
    await quiet();
    time.advance(500);
    await closed;
    expect(destroyed).toEqual(["stuck"]);
    expect(time.timers).toBe(0);
  });
});
