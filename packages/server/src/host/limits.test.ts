// SPDX-License-Identifier: Apache-2.0

import { constants } from "node:http2";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { create } from "@bufbuild/protobuf";
import { anyPack } from "@bufbuild/protobuf/wkt";
import { Code } from "@connectrpc/connect";
import { WritePropertyRequestSchema } from "@dm-env-rpc/protocol";
import { PropertyRequestSchema } from "@dm-env-rpc/protocol/properties";
import { type PackValue, pack, t } from "@dm-env-rpc/tensor-codec";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import { callUntilEnded } from "@dm-env-rpc/tests-processes";
import { memoryStreamPair, openConnectStream, openStream } from "@dm-env-rpc/transport";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { networkPeer, serving, until } from "../../testing/network.ts";
import { connectPeer, isBlocked, joinedPeers, Peer, quiet } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import { defineEnvironment } from "../definition/environment.ts";
import { property } from "../definition/property.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "./environment-server.ts";
import type { ServerEvent } from "./events.ts";
import { defaultLimits, limitsFrom } from "./limits.ts";
import type { Server } from "./serve.ts";

const never = new Promise<never>(() => {});

/** A world whose hooks hang on request. */
const slow = defineWorld({
  name: "slow",
  settings: { where: t.string() },
  actions: {},
  observations: {},
  create({ settings: { where } }) {
    const world = {
      join: () => (where === "join" ? never : undefined),
      start: () => (where === "reset" ? never : undefined),
      step: () => (where === "step" ? never : undefined),
      observe: {},
    };
    return where === "create" ? never.then(() => world) : world;
  },
});

describe("limits", () => {
  it("merges given limits into the defaults, and refuses unknown ones", () => {
    expect(limitsFrom({ maxWorlds: 3 })).toEqual({ ...defaultLimits, maxWorlds: 3 });
    expect(limitsFrom({ idleStreamMs: 0 }).idleStreamMs).toBe(0);
    expect(() => limitsFrom({ maxWorlds: 0 })).toThrow(
      /maxWorlds: expected .* at least 1, received 0/,
    );
    expect(() => limitsFrom({ stepMs: Number.NaN })).toThrow(/stepMs.*NaN/);
    expect(() => limitsFrom({ maxWorlds: 1.5 })).toThrow(/maxWorlds: expected a whole number.*1.5/);
    expect(() => limitsFrom({ stepMs: Number.POSITIVE_INFINITY })).toThrow(
      /stepMs: expected a number of milliseconds from 1 to 2147483647, received Infinity$/,
    );
    expect(() => limitsFrom({ idleWorldMs: 2 ** 31 })).toThrow(
      /received 2147483648; 0 means never/,
    );
    expect(() => limitsFrom({ maxStreamsPerConnection: Number.POSITIVE_INFINITY })).toThrow(
      /from 1 to 4294967295, received Infinity/,
    );
    expect(() => limitsFrom({ maxWorld: 1 } as never)).toThrow(
      /unknown limit "maxWorld": .*maxWorlds/,
    );
  });

  it("maxWorlds: refuses one more world until another is destroyed", async () => {
    await using server = createEnvironmentServer({ worlds: [tally()], limits: { maxWorlds: 2 } });
    const peer = connectPeer(server);
    const first = await peer.createWorld();
    await peer.createWorld();
    await expect(peer.createWorld()).rejects.toThrow(/^8: .*limit: maxWorlds/);
    await peer.destroyWorld(first);
    await peer.createWorld();
  });

  it("maxRequestsPerSecond: refuses further requests of an address, except steps and leaves", async () => {
    await using server = createEnvironmentServer({
      worlds: [tally()],
      limits: { maxRequestsPerSecond: 1 },
    });
    const peer = connectPeer(server);
    const world = await peer.createWorld();
    await peer.join(world);
    const refused = /^8: too many requests: expected at most 1 per second .*maxRequestsPerSecond/;
    await expect(
      (async () => {
        for (let i = 0; i < 1000; i++) {
          await peer.resetWorld(world);
        }
      })(),
    ).rejects.toThrow(refused);
    for (let i = 0; i < 20; i++) {
      await peer.step();
    }
    const [client, stream] = memoryStreamPair({ address: "192.0.2.1:1000" });
    server.accept(stream);
    await new Peer(client).join(world);
    await peer.leave();
  });

  it("maxRequestsPerSecond: does not count requests of operators that authorize names", async () => {
    await using server = createEnvironmentServer({
      worlds: [tally()],
      authorize: ({ metadata }) => (metadata.has("operator") ? ["agent", "operator"] : ["agent"]),
      limits: { maxRequestsPerSecond: 1 },
    });
    const [client, stream] = memoryStreamPair({ metadata: new Map([["operator", "yes"]]) });
    server.accept(stream);
    const operator = new Peer(client);
    const world = await operator.createWorld();
    for (let i = 0; i < 20; i++) {
      await operator.resetWorld(world);
    }
  });

  it("maxAgentsPerWorld: applies before the world's own maximum", async () => {
    await using server = createEnvironmentServer({
      worlds: [tally()],
      limits: { maxAgentsPerWorld: 2 },
    });
    const host = connectPeer(server);
    const world = await host.createWorld({ max_agents: 5 });
    const [one] = await joinedPeers(server, world, 2);
    await expect(host.join(world)).rejects.toThrow(/^8: .*room for 2 .*limit: maxAgentsPerWorld/);
    await one?.leave();
    await host.join(world);
    const small = await one?.createWorld({ max_agents: 1 });
    await joinedPeers(server, small ?? "", 1);
    await expect(one?.join(small ?? "")).rejects.toThrow(/^8: .*limit: agents\.max/);
  });

  it.each([
    ["create", "createMs"],
    ["join", "joinMs"],
    ["reset", "resetMs"],
    ["step", "stepMs"],
  ] as const)(
    "a world that takes too long in %s fails, and no other; the error names %s",
    async (where, limit) => {
      const time = manualTime();
      const events: ServerEvent[] = [];
      await using server = createEnvironmentServer({
        worlds: [slow],
        time,
        limits: { [limit]: 1234, idleStreamMs: 0 },
        onEvent: (event) => events.push(event),
      });
      const peer = connectPeer(server);
      const run = async (): Promise<void> => {
        const world = await peer.createWorld({ where });
        await peer.join(world);
        await peer.step();
        await peer.step();
      };
      const failed = expect(run()).rejects.toThrow(
        new RegExp(`^4: .*slow-1.*1234 ms \\(limit: ${limit}\\)`),
      );
      await quiet();
      time.advance(1234);
      await failed;
      expect(server.worldNames()).toEqual([]);
      expect(time.timers).toBe(0);
      expect(events.filter(({ kind }) => kind === "world-failed")).toHaveLength(1);
      const other = connectPeer(server);
      expect(await other.createWorld({ where: "nowhere" })).toBe("slow-2");
    },
  );

  it("idleStreamMs: ends a stream that has joined no world and sends nothing", async () => {
    const time = manualTime();
    await using server = createEnvironmentServer({
      worlds: [tally()],
      time,
      limits: { idleStreamMs: 1000 },
    });
    const [silent, talking, agent] = [0, 1, 2].map(() => connectPeer(server)) as [Peer, Peer, Peer];
    await agent.join(await talking.createWorld());
    for (let i = 0; i < 8; i++) {
      time.advance(250);
      await talking.leave();
    }
    expect(await silent.closed).toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: expect.stringMatching(/limit: idleStreamMs/),
    });
    expect(server.sessionCount).toBe(2);
    expect((await agent.step()).state).toBe("RUNNING");
  });

  it("idleStreamMs: ends a stream whose world has ended and that sends nothing", async () => {
    const time = manualTime();
    const limits = { idleStreamMs: 1000 };
    const worlds = [tally({ onDestroy: "force" })];
    await using server = createEnvironmentServer({ worlds, time, limits });
    const [host, silent] = [connectPeer(server), connectPeer(server)];
    const world = await host.createWorld();
    await silent.join(world);
    await silent.step();
    await host.destroyWorld(world);
    await expect(silent.step()).rejects.toThrow(/^5: .*destroyed/);
    for (let i = 0; i < 8; i++) {
      time.advance(250);
    }
    expect(await silent.closed).toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: expect.stringMatching(/limit: idleStreamMs/),
    });
  });

  it("releases a world that has ended, with or without agents", async () => {
    const made: WeakRef<object>[] = [];
    const heavy = defineWorld({
      name: "heavy",
      actions: {},
      observations: {},
      onDestroy: "force",
      create: () => {
        const world = { step() {}, observe: {} };
        made.push(new WeakRef(world));
        return world;
      },
    });
    const server = createEnvironmentServer({ worlds: [heavy] });
    const [host, silent] = [connectPeer(server), connectPeer(server)];
    const world = await host.createWorld();
    await silent.join(world);
    await silent.step();
    await host.destroyWorld(world);
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    await until(() => {
      collect();
      return made.every((reference) => reference.deref() === undefined);
    });
    expect(server.sessionCount).toBe(2);
  });

  it("releases the stream that created a world, while the world exists", async () => {
    const alone = defineEnvironment({
      name: "alone",
      actions: {},
      observations: { at: t.int32() },
      create: () => ({
        reset: () => ({ at: 0 }),
        step: () => ({ observation: { at: 1 }, state: "running" }),
      }),
    });
    const server = createEnvironmentServer({ worlds: [tally(), alone] });
    const created = async (worldType: string): Promise<WeakRef<object>> => {
      const [client, stream] = memoryStreamPair();
      server.accept(stream);
      const host = new Peer(client);
      await host.createWorld({ world_type: worldType });
      client.end();
      await host.closed;
      return new WeakRef(stream);
    };
    const streams = [await created("tally"), await created("alone")];
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    await until(() => {
      collect();
      return streams.every((reference) => reference.deref() === undefined);
    });
    expect(server.worldNames()).toHaveLength(2);
  });

  it("idleWorldMs: destroys a world without agents, and no other", async () => {
    const time = manualTime();
    const destroyed: ServerEvent[] = [];
    await using server = createEnvironmentServer({
      worlds: [tally()],
      premade: [{ settings: { length: 5 } }],
      time,
      limits: { idleWorldMs: 1000, idleStreamMs: 0 },
      onEvent: (event) => {
        if (event.kind === "world-destroyed") {
          destroyed.push(event);
        }
      },
    });
    await server.ready;
    const [host, agent] = [connectPeer(server), connectPeer(server)];
    const [unused, used] = [await host.createWorld(), await host.createWorld()];
    time.advance(999);
    await agent.join(used);
    time.advance(1);
    await quiet();
    expect(server.worldNames()).toEqual(["tally-1", used]);
    expect(destroyed).toEqual([
      { kind: "world-destroyed", worldName: unused, worldType: "tally", why: "idle" },
    ]);
    time.advance(5000);
    await agent.leave();
    time.advance(999);
    await agent.join(used);
    await agent.leave();
    time.advance(999);
    expect(server.worldNames()).toEqual(["tally-1", used]);
    time.advance(1);
    await quiet();
    expect(server.worldNames()).toEqual(["tally-1"]);
    await expect(agent.join(used)).rejects.toThrow(/^5: /);
  });

  it("idleWorldMs: by default a world without agents remains", async () => {
    const time = manualTime();
    await using server = createEnvironmentServer({
      worlds: [tally()],
      time,
      limits: { idleStreamMs: 0 },
    });
    await connectPeer(server).createWorld();
    expect(time.timers).toBe(0);
  });

  it("maxElements and maxStringBytes: refuse in-band, and the stream continues", async () => {
    await using server = await serving({
      worlds: [tally()],
      limits: { maxElements: 8, maxStringBytes: 16 },
    });
    await using peer = await networkPeer(server);
    const world = await peer.createWorld();
    await expect(peer.createWorld({ start: new Int32Array(9) })).rejects.toThrow(
      /^8: .*maxElements/,
    );
    await expect(peer.join(world, { name: "a".repeat(17) })).rejects.toThrow(
      /^8: .*maxStringBytes/,
    );
    await peer.join(world, { name: "a".repeat(16) });
  });

  it("maxElements and maxStringBytes: apply to values written to properties", async () => {
    const written: unknown[] = [];
    const write = (value: unknown): void => void written.push(value);
    const server = createEnvironmentServer({
      worlds: [tally()],
      properties: {
        row: property(t.int32([-1]), { write }),
        title: property(t.string(), { write }),
      },
      limits: { maxElements: 8, maxStringBytes: 16 },
    });
    const peer = connectPeer(server);
    const ask = async (key: string, tensor: PackValue): Promise<readonly string[]> => {
      const value = packTensor(pack(tensor));
      const payload = { case: "writeProperty" as const, value: { key, value } };
      const request = create(PropertyRequestSchema, { payload });
      const legacy = create(WritePropertyRequestSchema, { properties: { [key]: value } });
      const answers = [
        await peer.send({ case: "extension", value: anyPack(PropertyRequestSchema, request) }),
        await peer.send({ case: "writeProperty", value: legacy }),
      ];
      return answers.map((answer) =>
        answer.case === "error" ? `${answer.value.code}: ${answer.value.message}` : "written",
      );
    };
    const tooMany = expect.stringMatching(/^8: .*row.*limit: maxElements/);
    const tooLong = expect.stringMatching(/^8: .*title.*limit: maxStringBytes/);
    expect(await ask("row", new Int32Array(9))).toEqual([tooMany, tooMany]);
    expect(await ask("title", "a".repeat(17))).toEqual([tooLong, tooLong]);
    expect(written).toEqual([]);
    expect(await ask("row", new Int32Array(8))).toEqual(["written", "written"]);
  });

  it.each([
    ["HTTP/2", (server: Server) => openStream(server.url)],
    ["WebSocket", (server: Server) => openStream(server.url.replace("http:", "ws:"))],
    ["Connect", (server: Server) => openConnectStream(server.url)],
  ])(
    "behaviour 6: maxMessageBytes: answers a larger message in its turn, then ends the stream (%s)",
    async (_name, open) => {
      const limits = { maxMessageBytes: 4096 };
      const ended: (string | undefined)[] = [];
      await using server = await serving({
        worlds: [tally()],
        limits,
        onEvent: (event) => {
          if (event.kind === "connection-closed") {
            ended.push(event.error?.message);
          }
        },
      });
      await using other = await networkPeer(server);
      const world = await other.createWorld();
      await other.join(world);
      await using stream = await open(server);
      const peer = new Peer(stream);
      await peer.join(world);
      const waiting = peer.step();
      const refused = peer.step({ add: new Int32Array(5_000) }).catch(String);
      expect(await isBlocked(waiting)).toBe(true);
      await other.step();
      expect((await waiting).state).toBe("RUNNING");
      const says = /message too large: expected at most 4096 .* \(limit: maxMessageBytes\)$/;
      expect(await refused).toMatch(says);
      expect(await peer.closed).toMatchObject({
        code: "RESOURCE_EXHAUSTED",
        message: expect.stringMatching(says),
      });
      await until(() => ended.length === 1);
      expect(ended).toEqual([expect.stringMatching(says)]);
      expect((await other.step({ add: 1 })).state).toBe("RUNNING");
    },
  );

  it("maxStreamsPerAddress: refuses one more stream of the address until another is closed", async () => {
    await using server = await serving({ worlds: [tally()], limits: { maxStreamsPerAddress: 1 } });
    const first = await networkPeer(server);
    await first.createWorld();
    await using second = await networkPeer(server);
    expect(await second.closed).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringMatching(/limit: maxStreamsPerAddress/),
    });
    await first[Symbol.asyncDispose]();
    await until(() => server.sessionCount === 0);
    await using third = await networkPeer(server);
    expect(await third.createWorld()).toBe("tally-2");
  });

  it("maxStreamsPerAddress: a connection on which about a thousand streams are refused is ended", async () => {
    // While the clock stands still, no refused stream is forgiven.
    vi.useFakeTimers({ toFake: ["performance"] });
    onTestFinished(() => void vi.useRealTimers());
    await using server = await serving({
      worlds: [tally()],
      limits: { maxStreamsPerAddress: 1, maxRequestsPerSecond: 0, maxFloodsPerAddress: 0 },
    });
    await using served = await networkPeer(server);
    await served.createWorld();
    const { calls, ...end } = await callUntilEnded(server.url);
    expect(end).toEqual({
      goawayCode: constants.NGHTTP2_ENHANCE_YOUR_CALM,
      statuses: new Set([`${Code.ResourceExhausted}`]),
    });
    expect(calls).toBeGreaterThan(800);
    expect(calls).toBeLessThan(2_000);
    expect(await served.createWorld()).toBe("tally-2");
  });

  it("maxStreamsPerAddress: does not apply to streams without an IP address", async () => {
    await using server = createEnvironmentServer({
      worlds: [tally()],
      limits: { maxStreamsPerAddress: 1, maxStreams: 7 },
    });
    const outcome = async (address?: string): Promise<string> => {
      const [client, stream] = memoryStreamPair({ address });
      server.accept(stream);
      const peer = new Peer(client);
      const refused = peer.closed.then((error) => /limit: (\w+)/.exec(error?.message ?? "")?.[1]);
      return (await Promise.race([peer.createWorld().then(() => "open"), refused])) ?? "closed";
    };
    const addresses = [
      ...[undefined, undefined, "unix:", "unix:"],
      ...["192.0.2.1:1000", "192.0.2.1:1001", "[2001:db8::1]:1000", "[2001:db8::2]:1000"],
      ...["unix:", undefined],
    ];
    const outcomes: string[] = [];
    for (const address of addresses) {
      outcomes.push(await outcome(address));
    }
    expect(outcomes).toEqual([
      ...["open", "open", "open", "open"],
      ...["open", "maxStreamsPerAddress", "open", "maxStreamsPerAddress"],
      ...["open", "maxStreams"],
    ]);
  });

  it("maxConnections and maxStreams: refuse one more until another is closed", async () => {
    const errors: string[] = [];
    await using server = await serving({
      worlds: [tally()],
      limits: { maxConnections: 2, maxStreams: 1 },
      onEvent: (event) => {
        if (event.kind === "transport-error") {
          errors.push(event.error.message);
        }
      },
    });
    const first = await networkPeer(server);
    await first.createWorld();
    await using second = await networkPeer(server);
    expect(await second.closed).toMatchObject({
      code: "RESOURCE_EXHAUSTED",
      message: expect.stringMatching(/limit: maxStreams/),
    });
    await first[Symbol.asyncDispose]();
    await until(() => server.sessionCount === 0);
    await using third = await networkPeer(server);
    expect(await isBlocked(third.closed)).toBe(true);
    expect(await third.createWorld()).toBe("tally-2");
  });
});
