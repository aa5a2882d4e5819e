// SPDX-License-Identifier: Apache-2.0
import { EventEmitter, once } from "node:events";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { inflateSync } from "node:zlib";
import {
  createClient,
  createContextValues,
  createRouterTransport,
  type Transport,
} from "@connectrpc/connect";
import {
  createConnectTransport,
  createGrpcTransport,
  createGrpcWebTransport,
} from "@connectrpc/connect-node";
import {
  AgentState,
  SpectatorService,
  type WatchWorldResponse,
} from "@dm-env-rpc/protocol/spectator";
import { t, tensor, unpack } from "@dm-env-rpc/tensor-codec";
import { unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ByteCall } from "@dm-env-rpc/transport";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, it, test } from "vitest";
import { networkPeer, serving } from "../../testing/network.ts";
import { isBlocked, quiet } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import { defineEnvironment } from "../definition/environment.ts";
import { seededRandom } from "../definition/random.ts";
import type { Role } from "../definition/roles.ts";
import { defineWorld, type Picture } from "../definition/world.ts";
import { createEnvironmentServer } from "./environment-server.ts";
import type { ServerEvent } from "./events.ts";
import type { Server } from "./serve.ts";

function spectatorOf(server: Pick<Server, "url">, transport?: Transport) {
  return createClient(SpectatorService, transport ?? createGrpcTransport({ baseUrl: server.url }));
}

/** Reads frames one by one; disposing it cancels the call. */
function reader<T>(watch: (options: { signal: AbortSignal }) => AsyncIterable<T>) {
  const ended = new AbortController();
  const responses = watch({ signal: ended.signal })[Symbol.asyncIterator]();
  return {
    async next(): Promise<T> {
      const { value, done } = await responses.next();
      if (done === true) {
        throw new Error("the call has ended");
      }
      return value;
    },
    /** Reads until a response satisfies `is`. */
    async find(is: (response: T) => boolean): Promise<T> {
      for (;;) {
        const response = await this.next();
        if (is(response)) {
          return response;
        }
      }
    },
    ended: () => responses.next(),
    [Symbol.dispose]: () => ended.abort(),
  };
}

/** A world of one number with a picture that a test chooses. */
function painted(picture: () => Picture) {
  return defineWorld({
    name: "painted",
    description: "A world with a picture",
    version: "2.0.0",
    actions: {},
    observations: { reward: t.float32() },
    create: () => ({ step() {}, observe: { reward: () => 2 }, picture }),
  });
}

/** Returns the size and the pixels of a PNG file with unfiltered rows. */
function readPng(file: Uint8Array) {
  const bytes = Buffer.from(file);
  const [width, height] = [bytes.readUInt32BE(16), bytes.readUInt32BE(20)];
  const length = bytes.readUInt32BE(33);
  return { width, height, rows: [...inflateSync(bytes.subarray(41, 41 + length))] };
}

describe("behaviour 75: watching takes no seat", () => {
  it("lists the worlds with their agents, sequences, steps and returns", async () => {
    await using server = await serving({
      worlds: [tally()],
      premade: [{ settings: { length: 2 } }],
    });
    using list = reader((options) => spectatorOf(server).watchWorlds({ maxRate: 30 }, options));
    const empty = {
      name: "tally-1",
      type: "tally",
      agents: 0,
      sequences: 0n,
      steps: 0n,
      returns: 0n,
    };
    expect(await list.next()).toMatchObject({ worlds: [empty], worldCount: 1 });
    await using agent = await networkPeer(server);
    await agent.join("tally-1");
    await agent.step();
    await agent.step({ add: 3 });
    expect((await agent.step({ add: 4 })).state).toBe("TERMINATED");
    const { worlds } = await list.find(({ worlds: [world] }) => world?.returns === 1n);
    expect(worlds).toMatchObject([
      { agents: 1, sequences: 1n, ticks: 2n, steps: 3n, returns: 1n, returnSum: 7 },
    ]);
    expect(server.sessionCount).toBe(1);
    expect(server.worlds()).toMatchObject([{ agents: 1, joins: 1 }]);
  });

  it.each([
    ["as bytes", true],
    ["in JSON", false],
  ])("makes each list once for all viewers, whatever their rates, %s", async (_how, isBytes) => {
    await using server = await serving({ worlds: [tally()], premade: [{}] });
    const transport = createGrpcTransport({ baseUrl: server.url, useBinaryFormat: isBytes });
    const spectator = spectatorOf(server, transport);
    const times: number[] = [];
    const viewers = Array.from({ length: 40 }, async (_, i) => {
      using list = reader((options) => spectator.watchWorlds({ maxRate: 30 - i / 10 }, options));
      for (let lists = 0; lists < 5; lists++) {
        times.push((await list.next()).timeMs);
      }
    });
    await Promise.all(viewers);
    const spanMs = Math.max(...times) - Math.min(...times);
    expect(new Set(times).size).toBeLessThanOrEqual(spanMs / 30 + 1);
  });

  it("responds over Connect to one viewer in each turn of the event loop", async () => {
    await using server = createEnvironmentServer({ worlds: [tally()], premade: [{}] });
    await server.ready;
    const transport = createRouterTransport((router) => {
      router.service(SpectatorService, server.spectators.service);
    });
    const spectator = createClient(SpectatorService, transport);
    let turn = 0;
    let isOver = false;
    const countTurns = (): void => {
      turn += 1;
      if (!isOver) {
        setImmediate(countTurns);
      }
    };
    setImmediate(countTurns);
    const turns: number[] = [];
    const viewers = Array.from({ length: 50 }, async () => {
      using list = reader((options) => spectator.watchWorlds({}, options));
      await list.next();
      turns.push(turn);
    });
    await Promise.all(viewers);
    isOver = true;
    expect(new Set(turns).size).toBeGreaterThan(40);
  });

  it("shows a world whenever it changes, and its agents", async () => {
    await using server = await serving({ worlds: [tally()], premade: [{}] });
    await using agent = await networkPeer(server);
    await agent.join("tally-1");
    using world = reader((options) =>
      spectatorOf(server).watchWorld({ world: "tally-1" }, options),
    );
    const first = await world.next();
    expect(first).toMatchObject({
      isRunning: false,
      info: { clock: { name: "lockstep", deadlineMs: 0, isContinuous: false }, perAgent: false },
      agents: [{ agent: 1, state: AgentState.IDLE, isWaiting: false }],
      view: { case: undefined },
    });
    const again = world.next();
    expect(await isBlocked(again)).toBe(true);
    await agent.step();
    const begun = await again;
    expect([begun.isRunning, begun.info]).toEqual([true, undefined]);
    await agent.step({ add: 5 });
    await agent.step({ add: 6 });
    const { agents } = await world.find(({ world }) => world?.steps === 3n);
    expect(agents).toMatchObject([{ state: AgentState.RUNNING, reward: 6, return: 11 }]);
  });

  it("shows which agents wait for the others", async () => {
    await using server = await serving({ worlds: [tally()], premade: [{}] });
    await using first = await networkPeer(server);
    await using second = await networkPeer(server);
    await first.join("tally-1");
    await second.join("tally-1");
    await Promise.all([first.step(), second.step()]);
    using world = reader((options) =>
      spectatorOf(server).watchWorld({ world: "tally-1" }, options),
    );
    await world.next();
    const waiting = first.step({ add: 1 });
    const { agents } = await world.next();
    expect(agents.map(({ isWaiting }) => isWaiting)).toEqual([true, false]);
    await second.step({ add: 1 });
    await waiting;
  });

  it("shows the observations of an agent, without its reward, if a world has no picture", async () => {
    await using server = await serving({
      worlds: [tally()],
      premade: [{ settings: { start: 9 } }],
    });
    await using agent = await networkPeer(server);
    await agent.join("tally-1", { width: 3 });
    await agent.step();
    using world = reader((options) =>
      spectatorOf(server).watchWorld({ world: "tally-1" }, options),
    );
    const { view } = await world.next();
    if (view.case !== "observations") {
      throw new Error(`expected observations, received ${view.case}`);
    }
    const { agent: whose, observations } = view.value;
    const values = observations.map(({ name, tensor }) => [
      name,
      tensor && [...(unpack(unpackTensor(tensor)).data as Int32Array)],
    ]);
    expect(whose).toBe(1);
    expect(Object.fromEntries(values)).toMatchObject({ total: [9], tick: [0], row: [1, 1, 1] });
    expect(Object.keys(Object.fromEntries(values))).not.toContain("reward");
  });

  it("reads an agent's reward no more often than without viewers", async () => {
    let reads = 0;
    const counted = defineWorld({
      name: "counted",
      actions: {},
      observations: { reward: t.float32(), seen: t.float32() },
      create: () => ({
        step() {},
        observe: {
          reward: () => {
            reads += 1;
            return 1;
          },
          seen: () => 1,
        },
      }),
    });
    await using server = await serving({ worlds: [counted], premade: [{}] });
    await using agent = await networkPeer(server);
    await agent.join("counted-1");
    using world = reader((options) =>
      spectatorOf(server).watchWorld({ world: "counted-1" }, options),
    );
    await agent.step();
    await agent.step();
    await world.find(({ world }) => world?.steps === 2n);
    expect(reads).toBe(1);
  });

  it("shows a picture of pixels as PNG", async () => {
    const pixels = Uint8Array.of(1, 2, 3, 4, 5, 6);
    const world = painted(() => tensor("uint8", [1, 2, 3], pixels));
    await using server = await serving({ worlds: [world], premade: [{}] });
    await using agent = await networkPeer(server);
    await agent.join("painted-1");
    await agent.step();
    using watching = reader((options) =>
      spectatorOf(server).watchWorld({ world: "painted-1" }, options),
    );
    const { view, info } = await watching.next();
    expect(info).toMatchObject({ description: "A world with a picture", version: "2.0.0" });
    if (view.case !== "picture") {
      throw new Error(`expected a picture, received ${view.case}`);
    }
    expect(view.value.mediaType).toBe("image/png");
    expect(readPng(view.value.data)).toEqual({ width: 2, height: 1, rows: [0, 1, 2, 3, 4, 5, 6] });
  });

  it("shows a picture of text as SVG, and the picture of each agent's own environment", async () => {
    const drawing = defineEnvironment({
      name: "drawing",
      actions: {},
      observations: { count: t.int32() },
      create: () => {
        let count = 0;
        return {
          reset: () => ({ count }),
          step: () => {
            count += 1;
            return { observation: { count }, reward: 1 };
          },
          picture: () => `<svg xmlns="http://www.w3.org/2000/svg"><text>${count}</text></svg>`,
        };
      },
    });
    await using server = await serving({ worlds: [drawing], premade: [{}] });
    await using first = await networkPeer(server);
    await using second = await networkPeer(server);
    for (const [agent, steps] of [
      [first, 2],
      [second, 4],
    ] as const) {
      await agent.join("drawing-1");
      for (let i = 0; i < steps; i++) {
        await agent.step();
      }
    }
    const pictureFor = async (agent: number): Promise<string> => {
      using watching = reader((options) =>
        spectatorOf(server).watchWorld({ world: "drawing-1", agent }, options),
      );
      const { view, agents, info } = await watching.next();
      expect([agents.length, info?.perAgent]).toEqual([2, true]);
      expect(view).toMatchObject({ case: "picture", value: { mediaType: "image/svg+xml" } });
      return view.case === "picture" ? new TextDecoder().decode(view.value.data) : "";
    };
    expect(await pictureFor(0)).toContain("<text>1</text>");
    expect(await pictureFor(2)).toContain("<text>3</text>");
  });

  it.each<[string, () => unknown, RegExp]>([
    [
      "throws",
      () => {
        throw new Error("no paint");
      },
      /no paint/,
    ],
    ["is a promise", () => Promise.resolve(""), /promise/],
    [
      "is not a picture",
      () => tensor("uint8", [2, 2], new Uint8Array(4)),
      /uint8 of shape \[2,2\]/,
    ],
    ["is text other than SVG", () => "<b>bold</b>", /a string of 11 characters/],
  ])(
    "a picture that %s is an error for its spectators, reported once, and the world continues",
    async (_what, picture, message) => {
      const events: ServerEvent[] = [];
      const world = painted(picture as () => Picture);
      await using server = await serving({
        worlds: [world],
        premade: [{}],
        onEvent: (event) => events.push(event),
      });
      await using agent = await networkPeer(server);
      await agent.join("painted-1");
      await agent.step();
      using watching = reader((options) =>
        spectatorOf(server).watchWorld({ world: "painted-1" }, options),
      );
      const error = { case: "error", value: expect.stringMatching(message) };
      expect((await watching.next()).view).toMatchObject(error);
      expect((await agent.step()).state).toBe("RUNNING");
      expect((await watching.next()).view).toMatchObject(error);
      const failures = events.filter(({ kind }) => kind === "answer-failed");
      expect(failures).toMatchObject([{ worldName: "painted-1", what: '"picture"' }]);
    },
  );

  it("calls picture only while a viewer watches, once for all viewers", async () => {
    let pictures = 0;
    const world = painted(() => {
      pictures += 1;
      return "<svg/>";
    });
    await using server = await serving({ worlds: [world], premade: [{}] });
    await using agent = await networkPeer(server);
    await agent.join("painted-1");
    await agent.step();
    await agent.step();
    expect(pictures).toBe(0);
    const spectator = spectatorOf(server);
    const watch = () => reader((options) => spectator.watchWorld({ world: "painted-1" }, options));
    using one = watch();
    using other = watch();
    await Promise.all([one.next(), other.next()]);
    expect(pictures).toBe(1);
  });

  it("sends each viewer frames at its own rate and drops the others", async () => {
    await using server = await serving({
      worlds: [tally()],
      premade: [{ settings: { length: 1_000_000 } }],
    });
    await using agent = await networkPeer(server);
    await agent.join("tally-1");
    await agent.step();
    let stepping = true;
    const steps = (async () => {
      while (stepping) {
        await agent.step({ add: 1 });
      }
    })();
    using slow = reader((options) =>
      spectatorOf(server).watchWorld({ world: "tally-1", maxRate: 4 }, options),
    );
    using fast = reader((options) => spectatorOf(server).watchWorld({ world: "tally-1" }, options));
    /** Returns the milliseconds from one frame to the fourth after it. */
    const spanOf = async (frames: { next(): Promise<WatchWorldResponse> }): Promise<number> => {
      const { timeMs: startMs } = await frames.next();
      await frames.next();
      await frames.next();
      await frames.next();
      return (await frames.next()).timeMs - startMs;
    };
    const [slowMs, fastMs] = await Promise.all([spanOf(slow), spanOf(fast)]);
    stepping = false;
    await steps;
    // Four periods, less one in which the machine may stand still.
    expect(slowMs).toBeGreaterThan(3 * 250);
    expect(fastMs).toBeGreaterThan(100);
  });

  it("shows a world that changes faster than its picture is encoded", async () => {
    const side = 1_024;
    const { integer } = seededRandom(1n);
    const noise = new Uint8Array(side * side * 3).map(() => integer(0, 255));
    const world = painted(() => tensor("uint8", [side, side, 3], noise));
    await using server = await serving({ worlds: [world], premade: [{}] });
    await using agent = await networkPeer(server);
    await agent.join("painted-1");
    await agent.step();
    let stepping = true;
    const steps = (async () => {
      while (stepping) {
        await agent.step();
      }
    })();
    using watching = reader((options) =>
      spectatorOf(server).watchWorld({ world: "painted-1" }, options),
    );
    const first = await watching.next();
    const second = await watching.next();
    stepping = false;
    await steps;
    const [before = 0n, after = 0n] = [first, second].map(({ world }) => world?.steps);
    expect(after).toBeGreaterThan(before);
  });

  it("delays no tick while a viewer does not read", async () => {
    const noise = new Uint8Array(512 * 512 * 3).map((_, i) => (i * i * 31) % 251);
    const world = painted(() => tensor("uint8", [512, 512, 3], noise));
    await using server = await serving({ worlds: [world], premade: [{}] });
    await using agent = await networkPeer(server);
    await agent.join("painted-1");
    await agent.step();
    using stuck = reader((options) =>
      spectatorOf(server).watchWorld({ world: "painted-1" }, options),
    );
    await stuck.next();
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const reachable = () => {
      collect();
      return process.memoryUsage().arrayBuffers;
    };
    const before = reachable();
    const until = performance.now() + 3_000;
    // Steps would stay unanswered if one of them waited for the viewer.
    for (let steps = 0; steps < 500 || performance.now() < until; steps++) {
      await agent.step();
    }
    await expect.poll(() => reachable() - before).toBeLessThan(64 * 1024 * 1024);
  });

  it("ends when the world is gone, and when the server closes", async () => {
    await using server = await serving({ worlds: [tally()], premade: [{}, {}] });
    await using operator = await networkPeer(server);
    const spectator = spectatorOf(server);
    using first = reader((options) => spectator.watchWorld({ world: "tally-1" }, options));
    using second = reader((options) => spectator.watchWorld({ world: "tally-2" }, options));
    using list = reader((options) => spectator.watchWorlds({}, options));
    await Promise.all([first.next(), second.next(), list.next()]);
    await operator.destroyWorld("tally-1");
    expect((await first.ended()).done).toBe(true);
    await server.close({ graceMs: 0 });
    expect((await second.ended()).done).toBe(true);
    expect((await list.ended()).done).toBe(true);
  });

  it("bounds the agents of a world that are watched at a time, not their viewers", async () => {
    await using server = await serving({ worlds: [tally()], premade: [{}] });
    const spectator = spectatorOf(server);
    const watch = (agent: number) =>
      reader((options) => spectator.watchWorld({ world: "tally-1", agent }, options));
    const viewers = Array.from({ length: 16 }, (_, agent) => watch(agent + 1));
    await Promise.all(viewers.map((viewer) => viewer.next()));
    using one = watch(17);
    await expect(one.next()).rejects.toThrow(/resource_exhausted.*at most 16 in one world/);
    using again = watch(16);
    await again.next();
    for (const viewer of viewers.slice(0, 3)) {
      viewer[Symbol.dispose]();
    }
    await expect
      .poll(async () => {
        using later = watch(17);
        return await later.next().then(
          () => "watched",
          () => "refused",
        );
      })
      .toBe("watched");
    for (const viewer of viewers) {
      viewer[Symbol.dispose]();
    }
  });

  it("maxSpectatorsPerAddress: refuses a further call of an address until another has ended", async () => {
    await using server = await serving({
      worlds: [tally()],
      premade: [{}],
      limits: { maxSpectatorsPerAddress: 2 },
    });
    const watch = (transport?: Transport) =>
      reader((options) => spectatorOf(server, transport).watchWorld({ world: "tally-1" }, options));
    const list = (transport?: Transport) =>
      reader((options) => spectatorOf(server, transport).watchWorlds({}, options));
    const json = createGrpcTransport({ baseUrl: server.url, useBinaryFormat: false });
    using first = watch();
    using second = list();
    await Promise.all([first.next(), second.next()]);
    for (const call of [watch, list, () => watch(json), () => list(json)]) {
      using further = call();
      await expect(further.next()).rejects.toThrow(
        /resource_exhausted.*at most 2 at a time from one address.*limit: maxSpectatorsPerAddress/,
      );
    }
    expect(server.counts().refusals.get("maxSpectatorsPerAddress")).toBe(4);
    second[Symbol.dispose]();
    await expect
      .poll(async () => {
        using later = list(json);
        return await later.next().then(
          () => "watched",
          () => "refused",
        );
      })
      .toBe("watched");
  });

  it("refuses a world that does not exist and a rate that is not a positive number", async () => {
    await using server = await serving({ worlds: [tally()], premade: [{}] });
    const spectator = spectatorOf(server);
    using none = reader((options) => spectator.watchWorld({ world: "chess" }, options));
    await expect(none.next()).rejects.toThrow(/not_found.*unknown world "chess"/);
    using backwards = reader((options) => spectator.watchWorlds({ maxRate: -1 }, options));
    await expect(backwards.next()).rejects.toThrow(/invalid_argument.*max_rate.*received -1/);
  });

  it.each<readonly [readonly Role[] | undefined, RegExp | undefined]>([
    [["spectator"], undefined],
    [
      ["agent", "operator"],
      /permission_denied.*cannot watch worlds: expected the role "spectator"/,
    ],
    [undefined, /unauthenticated/],
  ])("requires the role spectator: %j", async (roles, refusal) => {
    await using server = await serving({
      worlds: [tally()],
      premade: [{}],
      authorize: ({ metadata }) => (metadata.get("who") === "me" ? roles : ["spectator"]),
    });
    const headers = { who: "me" };
    const spectator = spectatorOf(server);
    for (const watch of [
      (options: { signal: AbortSignal }) => spectator.watchWorlds({}, { ...options, headers }),
      (options: { signal: AbortSignal }) =>
        spectator.watchWorld({ world: "tally-1" }, { ...options, headers }),
    ]) {
      using calls = reader<unknown>(watch);
      if (refusal === undefined) {
        await calls.next();
      } else {
        await expect(calls.next()).rejects.toThrow(refusal);
      }
    }
  });

  it("does not grant the right to join: a spectator's join is refused", async () => {
    await using server = await serving({
      worlds: [tally()],
      premade: [{}],
      authorize: () => ["spectator"],
    });
    await using agent = await networkPeer(server);
    await expect(agent.join("tally-1")).rejects.toThrow(/the role "agent", received "spectator"/);
  });
});

it("tells viewers whether they may play, and with which keys", async () => {
  const keyed = (add: number) =>
    defineWorld({
      name: "keyed",
      actions: { add: t.int32() },
      observations: {},
      controls: { w: { label: "Up", actions: { add } } },
      create: () => ({ step() {}, observe: {} }),
    });
  const infoOf = async (options: Partial<Parameters<typeof serving>[0]>) => {
    await using server = await serving({ worlds: [keyed(1)], premade: [{}], ...options });
    using world = reader((call) => spectatorOf(server).watchWorld({ world: "keyed-1" }, call));
    return (await world.next()).info;
  };
  expect(await infoOf({})).toMatchObject({
    canJoin: true,
    controls: [{ key: "w", label: "Up", actions: { add: 1 } }],
  });
  expect(await infoOf({ authorize: () => ["spectator"] })).toMatchObject({ canJoin: false });
  const joinToken = () => ({ leave() {}, giveBack() {} });
  expect(await infoOf({ joinToken })).toMatchObject({ canJoin: false });
  await expect(infoOf({ worlds: [keyed(Number.NaN)] })).rejects.toThrow(
    /world "keyed": the control of the key "w"/,
  );
});

describe.each([
  ["gRPC", (baseUrl: string) => createGrpcTransport({ baseUrl })],
  ["gRPC in JSON", (baseUrl: string) => createGrpcTransport({ baseUrl, useBinaryFormat: false })],
  [
    "gRPC with a deadline",
    (baseUrl: string) => createGrpcTransport({ baseUrl, defaultTimeoutMs: 600_000 }),
  ],
  ["gRPC-Web", (baseUrl: string) => createGrpcWebTransport({ baseUrl, httpVersion: "1.1" })],
  ["Connect", (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "1.1" })],
  [
    "Connect in JSON",
    (baseUrl: string) =>
      createConnectTransport({ baseUrl, httpVersion: "1.1", useBinaryFormat: false }),
  ],
  [
    "Connect over HTTP/2",
    (baseUrl: string) => createConnectTransport({ baseUrl, httpVersion: "2" }),
  ],
] as const)("spectators over %s", (_name, transportOf) => {
  test("watch a world until it is gone", async () => {
    await using server = await serving({ worlds: [tally()], premade: [{}] });
    const spectator = spectatorOf(server, transportOf(server.url));
    using world = reader((options) => spectator.watchWorld({ world: "tally-1" }, options));
    await world.next();
    await using agent = await networkPeer(server);
    await agent.join("tally-1");
    expect(await world.next()).toMatchObject({ agents: [{ agent: 1 }] });
    await agent.leave();
    await agent.destroyWorld("tally-1");
    while ((await world.ended()).done !== true) {
      // Frames that were in flight.
    }
  });

  test("receive an error that says why", async () => {
    await using server = await serving({
      worlds: [tally()],
      authorize: ({ metadata }) => (metadata.has("who") ? ["spectator"] : ["agent"]),
    });
    const spectator = spectatorOf(server, transportOf(server.url));
    using refused = reader((options) => spectator.watchWorld({ world: "tally-1" }, options));
    await expect(refused.next()).rejects.toThrow(/permission_denied.*"spectator"/);
    const headers = { who: "me" };
    using lost = reader((options) =>
      spectator.watchWorld({ world: "a\nb %" }, { ...options, headers }),
    );
    await expect(lost.next()).rejects.toThrow(/not_found[\s\S]*unknown world "a\nb %"/);
  });
});

test("a call through a router of Connect ends with an error at its deadline", async () => {
  await using server = createEnvironmentServer({ worlds: [tally()], premade: [{}] });
  await server.ready;
  const transport = createRouterTransport((router) => {
    router.service(SpectatorService, server.spectators.service);
  });
  const spectator = createClient(SpectatorService, transport);
  for (const watch of [
    (headers: HeadersInit) => spectator.watchWorld({ world: "tally-1" }, { headers }),
    (headers: HeadersInit) => spectator.watchWorlds({ maxRate: 0.001 }, { headers }),
  ]) {
    // If the machine pauses, a deadline can pass before the first response arrives; the next deadline is longer.
    let hasStarted = false;
    for (let deadlineMs = 50; !hasStarted; deadlineMs *= 2) {
      // As a header, so that only the server watches the deadline.
      const responses: AsyncIterable<unknown> = watch({ "connect-timeout-ms": `${deadlineMs}` });
      const read = async (): Promise<void> => {
        for await (const _ of responses) {
          hasStarted = true;
        }
      };
      await expect(read()).rejects.toThrow("deadline_exceeded");
    }
  }
});

test("a viewer whose buffers empty right after a response receives the next one", async () => {
  const time = manualTime();
  await using server = createEnvironmentServer({ worlds: [tally()], time });
  const socket = new EventEmitter();
  const ended = new AbortController();
  let sent = 0;
  const call: ByteCall = {
    values: createContextValues(),
    signal: ended.signal,
    onClose: (listener) => ended.signal.addEventListener("abort", listener),
    send() {
      sent += 1;
      queueMicrotask(() => socket.emit("drain"));
      return false;
    },
    drained: async () => void (await once(socket, "drain")),
  };
  const list = server.spectators.byteStreams.get("/spectator.v1.SpectatorService/WatchWorlds");
  const watching = list?.(new Uint8Array(), call);
  for (let turn = 0; turn < 100 && sent < 3; turn++) {
    await quiet();
    time.advance(1_000);
  }
  expect(sent).toBe(3);
  ended.abort();
  await watching;
});

test.each([
  ["WatchWorld", "proto", /invalid_argument.*WatchWorldRequest/],
  ["WatchWorlds", "proto", /invalid_argument.*WatchWorldsRequest/],
  ["WatchWorlds", "json", /invalid_argument.*expected a WatchWorldsRequest/],
])("a malformed request to %s in %s is refused", async (method, format, notRequest) => {
  await using server = await serving({ worlds: [tally()], premade: [{}] });
  const path = `/spectator.v1.SpectatorService/${method}`;
  for (const [body, problem] of [
    [Uint8Array.of(0, 0, 0), /invalid_argument.*one message/],
    [Uint8Array.of(0, 0, 0, 0, 1, 0xff), notRequest],
    [new Uint8Array(70_000), /resource_exhausted.*at most 65536 bytes/],
  ] as const) {
    const response = await fetch(server.url + path, {
      method: "POST",
      headers: { "content-type": `application/connect+${format}` },
      body,
    });
    const end = Buffer.from(await response.bytes());
    expect(end[0]).toBe(2);
    expect(end.subarray(5).toString()).toMatch(problem);
  }
});
