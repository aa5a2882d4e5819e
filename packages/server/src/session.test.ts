// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { anyPack, EmptySchema } from "@bufbuild/protobuf/wkt";
import { LeaveWorldRequestSchema } from "@dm-env-rpc/protocol";
import { type ProcessRequest, t } from "@dm-env-rpc/tensor-codec";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { describe, expect, it } from "vitest";
import { connectPeer, isBlocked, joinedPeers, Peer, quiet } from "../testing/peer.ts";
import { type TallyEvent, type TallyOptions, tally } from "../testing/tally.ts";
import { createEnvironmentServer, type EnvironmentServerOptions } from "./environment-server.ts";
import { defineWorld } from "./world.ts";

function start(options: TallyOptions = {}, server: Partial<EnvironmentServerOptions> = {}) {
  return createEnvironmentServer({ worlds: [tally(options)], ...server });
}

describe("a session", () => {
  it("behaviour 1: serves many streams at once, each an agent", async () => {
    await using server = start();
    const host = connectPeer(server);
    const world = await host.createWorld({ max_agents: 100 });
    const peers = await joinedPeers(server, world, 50);
    expect(server.sessionCount).toBe(51);
    const steps = await Promise.all(peers.map((peer) => peer.step()));
    expect(steps.map(({ state }) => state)).toEqual(Array(50).fill("RUNNING"));
  });

  it("behaviour 2 and 3: answers requests in flight one by one, in order, each with its kind or an error", async () => {
    await using server = start();
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    const requests: ProcessRequest[] = [
      { case: "step", value: { actions: [], requestedObservations: [] } },
      { case: "leaveWorld", value: create(LeaveWorldRequestSchema) },
    ];
    const answers = await Promise.all([
      ...requests.map((request) => peer.send(request)),
      peer.join(world).then(() => ({ case: "joined" })),
      ...requests.map((request) => peer.send(request)),
      peer.send(requests[0] as ProcessRequest),
    ]);
    expect(answers.map((answer) => answer.case)).toEqual([
      "error",
      "leaveWorld",
      "joined",
      "step",
      "leaveWorld",
      "error",
    ]);
    expect(peer.received).toBe(7);
  });

  it("behaviour 3: stops reading past its bound and loses nothing", async () => {
    await using server = start({}, { limits: { maxQueuedRequests: 4 } });
    const [slow, other] = [connectPeer(server), connectPeer(server)];
    const world = await slow.createWorld({ length: 1_000_000 });
    await slow.join(world);
    await other.join(world);
    const steps = Array.from({ length: 100 }, (_, i) => slow.step({ add: i }, ["total"]));
    expect(await isBlocked(steps[0] as Promise<unknown>)).toBe(true);
    const others = Array.from({ length: 100 }, () => other.step({}, []));
    await Promise.all(others);
    const totals = (await Promise.all(steps)).map(({ observations }) => observations["total"]);
    expect(totals).toEqual(Array.from({ length: 100 }, (_, i) => (i * (i + 1)) / 2));
  });

  it("behaviour 3: reads ahead by bytes, too, and loses nothing", async () => {
    await using server = start({}, { limits: { maxQueuedBytes: 10_000 } });
    const [client, stream] = memoryStreamPair();
    let taken = 0;
    const begin = stream.start.bind(stream);
    stream.start = (receiver) =>
      begin({
        onMessage(message, bytes) {
          taken += 1;
          receiver.onMessage(message, bytes);
        },
        onEnd: () => receiver.onEnd(),
        onDrain: () => receiver.onDrain(),
        onClose: (error) => receiver.onClose(error),
      });
    server.accept(stream);
    const [slow, other] = [new Peer(client), connectPeer(server)];
    const world = await slow.createWorld({ length: 1_000_000 });
    await slow.join(world);
    await other.join(world);
    const before = taken;
    const step = slow.step();
    const large = Promise.allSettled(
      Array.from({ length: 20 }, () => slow.createWorld({ ["x".repeat(4_000)]: 1 })),
    );
    expect(await isBlocked(step)).toBe(true);
    expect(taken - before).toBe(1 + 3);
    await other.step();
    await step;
    expect((await large).map(({ status }) => status)).toEqual(new Array(20).fill("rejected"));
  });

  it("behaviour 4: refuses a step and a reset while not joined", async () => {
    await using server = start();
    const peer = connectPeer(server);
    const step = await peer.send({
      case: "step",
      value: { actions: [], requestedObservations: [] },
    });
    expect(step.case === "error" && step.value.message).toMatch(/joined none.*JoinWorldRequest/);
    await expect(peer.reset()).rejects.toThrow(/^9: .*joined none/);
  });

  it("behaviour 5: never sends TERMINATED or INTERRUPTED twice without RUNNING between", async () => {
    await using server = start();
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld({ length: 2 }));
    const states = [];
    for (let i = 0; i < 8; i++) states.push((await peer.step()).state);
    expect(states).toEqual([
      "RUNNING",
      "RUNNING",
      "TERMINATED",
      "RUNNING",
      "RUNNING",
      "TERMINATED",
      "RUNNING",
      "RUNNING",
    ]);
  });

  it("behaviour 6: an error changes nothing and the stream lives on", async () => {
    await using server = start();
    const peer = connectPeer(server);
    await peer.join(await peer.createWorld());
    await peer.step();
    await peer.step({ add: 5 });
    await expect(peer.step({ add: 1001 })).rejects.toThrow(/add/);
    await expect(peer.step({}, ["nonsense"])).rejects.toThrow(/999/);
    const { observations } = await peer.step({ add: 1 });
    expect(observations).toMatchObject({ total: 6, tick: 2 });
  });

  it("behaviour 8: a half-close is answered in full, then the agent leaves, then the stream ends", async () => {
    const log: TallyEvent[] = [];
    await using server = start({ log });
    const [peer, other] = [connectPeer(server), connectPeer(server)];
    const world = await peer.createWorld();
    await peer.join(world);
    await other.join(world);
    const [first, second] = [peer.step(), peer.step({ add: 1 })];
    peer.stream.end();
    expect(await isBlocked(first)).toBe(true);
    await other.step();
    expect((await first).state).toBe("RUNNING");
    await other.step();
    expect((await second).observations["total"]).toBe(1);
    expect(await peer.closed).toBeUndefined();
    expect(log.at(-1)).toBe("leave 1");
  });

  it("behaviour 8: an abort drops the queue and frees the others at once", async () => {
    const log: TallyEvent[] = [];
    await using server = start({ log });
    const world = await connectPeer(server).createWorld({ length: 100 });
    const [dying, other] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([dying.step(), other.step()]);
    const waiting = other.step({ add: 1 });
    expect(await isBlocked(waiting)).toBe(true);
    dying.drop();
    expect((await waiting).observations["total"]).toBe(1);
    expect(log).toContain("leave 1");
    expect(server.sessionCount).toBe(2);
  });

  it("behaviour 9: answers requests without a payload, unknown extensions and malformed bytes with errors", async () => {
    await using server = start();
    const [client, stream] = memoryStreamPair();
    server.accept(stream);
    const peer = new Peer(client);
    const empty = await peer.send({ case: undefined, value: undefined });
    expect(empty.case === "error" && empty.value).toMatchObject({ code: 3 });
    const extension = await peer.send({
      case: "extension",
      value: anyPack(EmptySchema, create(EmptySchema)),
    });
    expect(extension.case).toBe("error");
    expect(await peer.createWorld()).toBe("tally-1");
  });
});

describe("create, join, leave, destroy", () => {
  it("behaviour 21: names a setting that is missing, unknown or bad", async () => {
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

  it("behaviour 24: worlds are independent, and one that throws takes down itself alone", async () => {
    const broken = defineWorld({
      name: "broken",
      actions: { number: t.int32() },
      observations: {},
      create: () => ({
        step(actions) {
          for (const { number } of actions.values()) if (number === 13) throw new Error("unlucky");
        },
        observe: {},
      }),
    });
    const events: string[] = [];
    await using server = createEnvironmentServer({
      worlds: [tally(), broken],
      onEvent: (event) => {
        if (event.kind === "world-failed") events.push(event.error.message);
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

  it("behaviour 25: whoever creates need not join", async () => {
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

  it("behaviour 27: refuses a second join, and more agents than there is room for", async () => {
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
    for (let i = 0; i < 5; i++) alone.push((await peer.step()).state);
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

  it("behaviour 30: destroys from any connection, but not the unknown or the joined", async () => {
    const log: TallyEvent[] = [];
    await using server = start({ log });
    const peer = connectPeer(server);
    await expect(peer.destroyWorld("nowhere")).rejects.toThrow(/^5: .*"nowhere".*none/);
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
