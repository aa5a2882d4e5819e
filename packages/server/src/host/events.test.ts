// SPDX-License-Identifier: Apache-2.0

import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { connectPeer, joinedPeers, type Peer, quiet } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import { lockstep } from "../clocks/lockstep.ts";
import { defineWorld } from "../definition/world.ts";
import { requestChannelName } from "../session/request-metrics.ts";
import { createEnvironmentServer } from "./environment-server.ts";
import { channelName, createEmit, type ServerEvent } from "./events.ts";

const broken = defineWorld({
  name: "broken",
  actions: { number: t.int32() },
  observations: {},
  create: () => ({
    step() {
      throw new Error("unlucky");
    },
    observe: {},
  }),
});

describe("events", () => {
  it("report the lives of connections, worlds and agents, in order", async () => {
    const events: ServerEvent[] = [];
    const server = createEnvironmentServer({
      worlds: [tally()],
      onEvent: (event) => events.push(event),
    });
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    await peer.join(world);
    await peer.step();
    await peer.leave();
    await peer.destroyWorld(world);
    peer.stream.end();
    await peer.closed;
    const dropped = connectPeer(server);
    dropped.drop();
    await quiet();
    await server.close({ graceMs: 5 });
    expect(events).toEqual([
      { kind: "connection-opened", address: "memory" },
      { kind: "world-created", worldName: "tally-1", worldType: "tally" },
      { kind: "agent-joined", worldName: "tally-1", agent: 1 },
      { kind: "sequence-started", worldName: "tally-1" },
      { kind: "agent-left", worldName: "tally-1", agent: 1, error: undefined },
      { kind: "world-destroyed", worldName: "tally-1", worldType: "tally", why: "requested" },
      { kind: "connection-closed", address: "memory", error: undefined },
      { kind: "connection-opened", address: "memory" },
      { kind: "connection-closed", address: "memory", error: expect.any(Error) },
      { kind: "server-closing", graceMs: 5 },
    ]);
  });

  it("report missed deadlines, failed worlds, and the streams that a close ends", async () => {
    const time = manualTime();
    const events: ServerEvent[] = [];
    const clock = lockstep({ deadlineMs: 100, onMissedDeadline: "leave" });
    const server = createEnvironmentServer({
      worlds: [tally({ clock }), broken],
      time,
      onEvent: (event) => events.push(event),
    });
    const host = connectPeer(server);
    const world = await host.createWorld({ world_type: "tally" });
    const [one, two] = (await joinedPeers(server, world, 2)) as [Peer, Peer];
    await Promise.all([one.step(), two.step()]);
    const stepped = one.step();
    await quiet();
    time.advance(100);
    await stepped;
    await host.join(await host.createWorld({ world_type: "broken" }));
    await host.step();
    await expect(host.step()).rejects.toThrow(/unlucky/);
    await server.close();
    const told = events.filter(({ kind }) => !kind.startsWith("connection"));
    expect(told).toMatchObject([
      { kind: "world-created", worldName: "tally-1" },
      { kind: "agent-joined", agent: 1 },
      { kind: "agent-joined", agent: 2 },
      { kind: "sequence-started", worldName: "tally-1" },
      { kind: "deadline-missed", worldName: "tally-1", agent: 2 },
      { kind: "agent-left", agent: 2, error: { code: "DEADLINE_EXCEEDED" } },
      { kind: "world-created", worldType: "broken" },
      { kind: "agent-joined", worldName: "broken-2" },
      { kind: "sequence-started", worldName: "broken-2" },
      {
        kind: "world-failed",
        worldName: "broken-2",
        worldType: "broken",
        error: { code: "INTERNAL" },
      },
      { kind: "agent-left", worldName: "broken-2", error: { code: "INTERNAL" } },
      { kind: "server-closing", graceMs: 0 },
      { kind: "agent-left", worldName: "tally-1", agent: 1, error: undefined },
      { kind: "world-destroyed", worldName: "tally-1", why: "closing" },
    ]);
  });

  it("are published on the channel of their kind while it has subscribers", async () => {
    const published: unknown[] = [];
    const listen = (message: unknown, name: string | symbol): void => {
      published.push([name, message]);
    };
    await using server = createEnvironmentServer({ worlds: [tally()] });
    const peer = connectPeer(server);
    await peer.createWorld();
    subscribe(channelName("world-created"), listen);
    await peer.createWorld();
    unsubscribe(channelName("world-created"), listen);
    await peer.createWorld();
    expect(published).toEqual([
      [
        "dm-env-rpc:server:world-created",
        { kind: "world-created", worldName: "tally-2", worldType: "tally" },
      ],
    ]);
  });

  it("requests are measured while the channel has subscribers", async () => {
    const answered: unknown[] = [];
    const listen = (message: unknown): void => {
      answered.push(message);
    };
    await using server = createEnvironmentServer({ worlds: [tally()] });
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    subscribe(requestChannelName, listen);
    await peer.join(world);
    await peer.step();
    await expect(peer.join(world)).rejects.toThrow();
    unsubscribe(requestChannelName, listen);
    await peer.step();
    const durationMs = expect.any(Number);
    expect(answered).toEqual([
      { address: "memory", request: "joinWorld", durationMs, code: 0 },
      { address: "memory", request: "step", durationMs, code: 0 },
      { address: "memory", request: "joinWorld", durationMs, code: 9 },
    ]);
  });

  it("a listener that throws is an uncaught exception and has no other effect", async () => {
    const uncaught = new Promise<unknown>((resolve) => {
      const before = process.listeners("uncaughtException");
      process.removeAllListeners("uncaughtException");
      process.once("uncaughtException", (error) => {
        for (const listener of before) {
          process.on("uncaughtException", listener);
        }
        resolve(error);
      });
    });
    const emit = createEmit(() => {
      throw new Error("the log is full");
    });
    emit({ kind: "server-closing", graceMs: 0 });
    expect(await uncaught).toMatchObject({ message: "the log is full" });
  });
});
