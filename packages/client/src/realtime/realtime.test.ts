// SPDX-License-Identifier: Apache-2.0

import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { manualTime } from "@dm-env-rpc/transport/internal";
import { describe, expect, test } from "vitest";
import { connected, type Script, type ScriptedServer } from "../testing/scripted-server.ts";
import {
  blockingReset,
  type RealtimeOptions,
  realtime,
  recordStatistics,
  throttle,
  timeLimit,
} from "./index.ts";

const observations = { tick: t.int32(), time: t.float64(), reward: t.float32() };

/** Worlds with a reward of 1 per step; each poll makes a tick. */
async function worlds(
  count: number,
  script: (index: number) => Script = () => ({}),
  options: RealtimeOptions<object, { readonly [name: string]: unknown }> = {},
) {
  const time = manualTime();
  const servers: ScriptedServer[] = [];
  const environments = [];
  for (let i = 0; i < count; i++) {
    const { connection, server } = await connected({
      observations,
      sequenceLength: 1_000,
      observe: (name, tick) => (name === "time" ? 5_000 + tick : name === "tick" ? tick : 1),
      ...script(i),
    });
    servers.push(server);
    environments.push(await connection.join("world"));
  }
  const env = realtime(environments, { time, pollIntervalMs: 10, ...options });
  return { time, servers, env, connections: environments.map(({ connection }) => connection) };
}

type Env = Awaited<ReturnType<typeof worlds>>["env"];

/** Waits until an index reaches a tick. */
async function tick(env: Env, index: number, value: number): Promise<void> {
  while (env.peek()[index]?.["tick"] !== value) {
    await env.next({ timeoutMs: 60_000 });
  }
}

const idle = (count: number) => Array.from({ length: count }, () => ({}));

describe("behaviour 54: a real-time world runs on", () => {
  test("when no agent steps; rewards are summed up, and frames that were not taken are counted", async () => {
    const { time, env } = await worlds(1);
    await env.reset();
    await tick(env, 0, 0);
    for (let i = 1; i <= 5; i++) {
      time.advance(10);
      await tick(env, 0, i);
    }
    const { observationN, rewardN, doneN, info } = env.take();
    expect(observationN).toMatchObject([{ tick: 5 }]);
    expect([rewardN, doneN]).toEqual([[5], [false]]);
    expect(info.n[0]).toMatchObject({ status: "running", framesLost: 5 });
    expect(env.take().rewardN).toEqual([0]);
    await env.close();
  });

  test("lags, thinking time, clock skew and throughput come in info", async () => {
    const { time, env, servers } = await worlds(
      1,
      () => ({
        answer: (request, server) => {
          // The way there and back takes 4 ms, and the world is 5 s ahead.
          if (request.case === "step") {
            timeOf(server).advance(4);
          }
          return undefined;
        },
      }),
      { remoteTimeMs: (observation) => Number(observation["time"]) },
    );
    const timeOf = (_server: ScriptedServer) => time;
    await env.reset();
    await tick(env, 0, 0);
    expect(env.take().info).toMatchObject({
      thinkingMs: null,
      n: [
        {
          roundTripMs: 4,
          clockSkewMs: 4_998,
          observationLagMs: 2,
          actionLagMs: null,
          rewardLagMs: null,
        },
      ],
    });
    time.advance(3);
    env.act([{ move: 1 }]);
    await tick(env, 0, 1);
    time.advance(1);
    const { info } = env.take();
    expect(info.thinkingMs).toBe(3);
    expect(info.n[0]).toMatchObject({ roundTripMs: 4, actionLagMs: 2 });
    expect(info.n[0]?.framesPerSecond).toBeCloseTo(1_000 / 7);
    expect(info.n[0]?.rewardLagMs).toBe(info.n[0]?.observationLagMs);
    expect(servers[0]?.requests.at(-1)).toMatchObject({ value: { actions: [{ uid: 1 }] } });
    await env.close();
  });
});

test("behaviour 54: the rewards of a sequence, and their lag, do not outlast a reset", async () => {
  const { time, env } = await worlds(1);
  await blockingReset(env).reset();
  time.advance(10);
  await tick(env, 0, 1);
  time.advance(5);
  await env.reset();
  await tick(env, 0, 0);
  expect(env.take()).toMatchObject({
    rewardN: [0],
    info: { n: [{ rewardLagMs: null, framesLost: 0 }] },
  });
  time.advance(10);
  await tick(env, 0, 1);
  time.advance(2);
  expect(env.take()).toMatchObject({ rewardN: [1], info: { n: [{ rewardLagMs: 2 }] } });
  expect(env.take()).toMatchObject({ rewardN: [0], info: { n: [{ rewardLagMs: null }] } });
  await env.close();
});

test("behaviour 54: the lag of rewards is that of the oldest one that was not taken", async () => {
  const { time, env } = await worlds(1);
  await blockingReset(env).reset();
  env.take();
  for (const at of [1, 2]) {
    time.advance(10);
    await tick(env, 0, at);
  }
  time.advance(2);
  expect(env.take()).toMatchObject({
    rewardN: [2],
    info: { n: [{ rewardLagMs: 12, observationLagMs: 2 }] },
  });
  await env.close();
});

describe("behaviour 55: reset", () => {
  test("returns at once, and observations are null until there is a valid one", async () => {
    const { env } = await worlds(2);
    expect(await env.reset()).toEqual([null, null]);
    expect((await env.step(idle(2))).observationN).toEqual([null, null]);
    await tick(env, 0, 0);
    await tick(env, 1, 0);
    expect((await env.step(idle(2))).observationN).toMatchObject([{ tick: 0 }, { tick: 0 }]);
    expect(await env.reset({ mask: [true, false] })).toMatchObject([null, { tick: 0 }]);
    await env.close();
  });

  test("waits with blockingReset", async () => {
    const { env } = await worlds(2);
    expect(await blockingReset(env).reset()).toMatchObject([{ tick: 0 }, { tick: 0 }]);
    await env.close();
  });
});

describe("behaviour 56: vectors", () => {
  test("an index that is done resets by itself; until then it is null, and the others continue", async () => {
    const { time, env } = await worlds(2, (index) => (index === 0 ? { sequenceLength: 2 } : {}));
    await blockingReset(env).reset();
    for (const i of [1, 2]) {
      time.advance(10);
      await tick(env, 0, i);
      await tick(env, 1, i);
    }
    time.advance(10);
    await tick(env, 1, 3);
    const ended = await env.step(idle(2));
    expect(ended.doneN).toEqual([true, false]);
    expect(ended.observationN).toMatchObject([{ tick: 2 }, { tick: 3 }]);
    expect(ended.rewardN).toEqual([2, 3]);
    const resetting = await env.step(idle(2));
    expect(resetting.observationN).toMatchObject([null, { tick: 3 }]);
    expect(resetting.doneN).toEqual([false, false]);
    expect(resetting.info.n[0]?.status).toBe("resetting");
    await tick(env, 0, 0);
    const { observationN, info } = await env.step(idle(2));
    expect(observationN[0]).toMatchObject({ tick: 0 });
    expect(info.n).toHaveLength(observationN.length);
    await env.close();
  });

  test("the vector loop of Universe", async () => {
    const { time, env } = await worlds(2, () => ({ sequenceLength: 3 }));
    let observationN = await env.reset();
    let sequences = 0;
    while (sequences < 4) {
      const actionN = observationN.map((observation) => (observation === null ? {} : { move: 1 }));
      const step = await env.step(actionN);
      observationN = step.observationN;
      expect(step.info.n).toHaveLength(observationN.length);
      sequences += step.doneN.filter(Boolean).length;
      time.advance(10);
      await new Promise((resolve) => setImmediate(resolve));
    }
    await env.close();
  });

  test("one that fails is reported, and the others continue", async () => {
    const { time, env, servers } = await worlds(2);
    await blockingReset(env).reset();
    servers[0]?.stream.abort(new DmEnvRpcError("UNKNOWN", "power cut"));
    time.advance(10);
    await tick(env, 1, 1);
    while (env.failures()[0] === undefined) {
      await env.next({ timeoutMs: 60_000 });
    }
    const { observationN, info } = await env.step(idle(2));
    expect(observationN).toMatchObject([null, { tick: 1 }]);
    expect(info.n[0]).toMatchObject({ status: "failed", failure: expect.any(DmEnvRpcError) });
    expect(await blockingReset(env).reset()).toMatchObject([null, { tick: 0 }]);
    await env.close();
  });
});

test("behaviour 57: a step before the first reset is a clear error; further resets are fine", async () => {
  const { env } = await worlds(1);
  await expect(env.step(idle(1))).rejects.toMatchObject({
    code: "FAILED_PRECONDITION",
    origin: "client",
    message: expect.stringMatching(/before the first reset; call reset\(\) first/),
  });
  await env.reset();
  await env.reset();
  await blockingReset(env).reset();
  await expect(env.step(idle(2))).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    origin: "client",
    message: expect.stringMatching(/each of 1 environments, received 2/),
  });
  await env.close();
});

describe("behaviour 58: throttle", () => {
  test("acts at once, waits for the frame's end, returns the newest observation and sums up the rewards", async () => {
    const { time, env, servers } = await worlds(1);
    const slow = throttle(env, 20, { time });
    await blockingReset(env).reset();
    const step = slow.step([{ move: 2 }]);
    await tick(env, 0, 1);
    for (let i = 2; i <= 4; i++) {
      time.advance(10);
      await tick(env, 0, i);
    }
    expect(servers[0]?.requests[2]).toMatchObject({ value: { actions: [{ uid: 1 }] } });
    time.advance(20);
    const { observationN, rewardN, info } = await step;
    expect(observationN).toMatchObject([{ tick: 4 }]);
    expect(rewardN).toEqual([4]);
    expect(info.n[0]?.framesLost).toBe(4);
    expect(info.framesMissed).toBe(0);
    await env.close();
  });

  test("never sums across the end of a sequence", async () => {
    const { time, env } = await worlds(1, () => ({ sequenceLength: 2 }));
    const slow = throttle(env, 10, { time });
    await blockingReset(env).reset();
    const step = slow.step([{ move: 2 }]);
    await tick(env, 0, 1);
    time.advance(10);
    await tick(env, 0, 2);
    time.advance(90);
    expect(await step).toMatchObject({ rewardN: [2], doneN: [true], observationN: [{ tick: 2 }] });
    await env.close();
  });

  test("nor does an action that overtook the end of its sequence", async () => {
    const { env } = await worlds(1, () => ({ sequenceLength: 1 }), { pollIntervalMs: 1_000 });
    await blockingReset(env).reset();
    env.act([{ move: 1 }]);
    env.act([{ move: 2 }]);
    await tick(env, 0, 1);
    for (let i = 0; i < 5; i++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(env.take()).toMatchObject({ doneN: [true], rewardN: [1], observationN: [{ tick: 1 }] });
    await tick(env, 0, 0);
    await env.close();
  });

  test("and begins the next sequence, which is observed: none is begun and abandoned", async () => {
    let begun = 0;
    const { env, servers } = await worlds(
      1,
      () => ({
        sequenceLength: 1,
        observe: (name, at) => {
          if (name === "tick" && at === 0) {
            begun++;
          }
          return name === "tick" ? at : 1;
        },
      }),
      { pollIntervalMs: 1_000 },
    );
    await blockingReset(env).reset();
    let ended = 0;
    while (ended < 4) {
      // The first ends the sequence, the second begins another, the third ends that, the fourth begins one more.
      if (ended % 2 === 0) {
        for (let i = 0; i < 4; i++) {
          env.act([{ move: 1 }]);
        }
      }
      await env.next({ timeoutMs: 60_000 });
      for (let i = 0; i < 5; i++) {
        await new Promise((resolve) => setImmediate(resolve));
      }
      while (env.take().doneN[0] === true) {
        ended++;
      }
    }
    expect(begun).toBe(ended + 1);
    expect(servers[0]?.requests.some(({ case: kind }) => kind === "reset")).toBe(false);
    expect(env.peek()).toMatchObject([{ tick: 0 }]);
    await env.close();
  });

  test("polls without an action, and not at all until an end was taken", async () => {
    const { time, env, servers } = await worlds(1, () => ({ sequenceLength: 2 }));
    await blockingReset(env).reset();
    for (const i of [1, 2]) {
      time.advance(10);
      await tick(env, 0, i);
    }
    const sent = servers[0]?.requests.length;
    time.advance(1_000);
    for (let i = 0; i < 5; i++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(servers[0]?.requests).toHaveLength(sent ?? -1);
    expect(env.take().doneN).toEqual([true]);
    await tick(env, 0, 0);
    const actions = servers[0]?.requests.flatMap((request) =>
      request.case === "step" ? request.value.actions : [],
    );
    expect(actions).toEqual([]);
    await env.close();
  });

  test("counts the frames that the agent was too late for", async () => {
    const { time, env } = await worlds(1, undefined, { pollIntervalMs: 100_000 });
    const slow = throttle(env, 100, { time });
    await blockingReset(env).reset();
    const first = slow.step(idle(1));
    time.advance(10);
    await first;
    time.advance(35);
    const late = slow.step(idle(1));
    time.advance(5);
    expect((await late).info.framesMissed).toBe(3);
    const next = slow.step(idle(1));
    time.advance(10);
    expect((await next).info.framesMissed).toBe(0);
    await env.close();
  });
});

describe("wrappers", () => {
  test("timeLimit cuts a sequence short by steps: done, truncated, and it resets", async () => {
    const { time, env } = await worlds(2, undefined, { pollIntervalMs: 1_000 });
    const limited = timeLimit(env, { steps: 2, time });
    await blockingReset(limited).reset();
    expect((await limited.step(idle(2))).doneN).toEqual([false, false]);
    const cut = await limited.step(idle(2));
    expect(cut.doneN).toEqual([true, true]);
    expect(cut.info.n.map(({ truncated }) => truncated)).toEqual([true, true]);
    expect(limited.peek()).toEqual([null, null]);
    await tick(env, 0, 0);
    await env.close();
  });

  test("timeLimit and recordStatistics count each sequence from its beginning", async () => {
    const { time, env } = await worlds(1, () => ({ sequenceLength: 2 }), {
      pollIntervalMs: 1_000,
    });
    const wrapped = recordStatistics(timeLimit(env, { steps: 4, time }), { time });
    await blockingReset(wrapped).reset();
    for (const _sequence of [1, 2, 3]) {
      await tick(env, 0, 0);
      expect((await wrapped.step([{ move: 1 }])).doneN).toEqual([false]);
      await tick(env, 0, 1);
      time.advance(7);
      expect((await wrapped.step([{ move: 1 }])).doneN).toEqual([false]);
      await tick(env, 0, 2);
      time.advance(5);
      const { doneN, info } = await wrapped.step([{}]);
      expect(doneN).toEqual([true]);
      expect(info.n[0]).toMatchObject({
        truncated: false,
        sequence: { steps: 3, return: 2, ms: 12 },
      });
    }
    await env.close();
  });

  test("timeLimit keeps counting if a mask resets others", async () => {
    const { time, env } = await worlds(2, undefined, { pollIntervalMs: 1_000 });
    const limited = timeLimit(env, { steps: 2, time });
    await blockingReset(limited).reset();
    await limited.step(idle(2));
    await limited.reset({ mask: [true] });
    await tick(env, 0, 0);
    expect((await limited.step(idle(2))).doneN).toEqual([false, true]);
    expect(limited.peek()).toMatchObject([{ tick: 0 }, null]);
    await env.close();
  });

  test("timeLimit cuts a sequence short by time, and recordStatistics reports its statistics", async () => {
    const { time, env } = await worlds(1, undefined, { pollIntervalMs: 1_000 });
    const wrapped = recordStatistics(timeLimit(env, { ms: 50, time }), { time });
    await blockingReset(wrapped).reset();
    let steps = 1;
    let step = await wrapped.step([{ move: 1 }]);
    while (!step.doneN[0]) {
      await tick(env, 0, steps);
      time.advance(20);
      step = await wrapped.step([{ move: 1 }]);
      steps++;
    }
    expect(steps).toBe(4);
    expect(step.info.n[0]).toMatchObject({
      truncated: true,
      sequence: { steps: 4, return: 3, ms: 60 },
    });
    await env.close();
  });
});

describe("lags", () => {
  /** A world with a given latency of steps, equal in both directions. */
  async function slowWorld(
    roundTripsMs: readonly number[],
    options: Partial<Parameters<typeof worlds>[2]> = {},
  ) {
    const left = [...roundTripsMs];
    const made = await worlds(
      1,
      () => ({
        answer: (request) => {
          if (request.case === "step") {
            clock.time?.advance(left.shift() ?? 0);
          }
          return undefined;
        },
      }),
      options,
    );
    const clock: { time?: typeof made.time } = {};
    clock.time = made.time;
    const poll = async (ms: number, at: number) => {
      made.time.advance(ms);
      await tick(made.env, 0, at);
      return made.env.take().info.n[0];
    };
    return { ...made, poll };
  }

  test("the world's clock is read off the shortest round trip, the later of two", async () => {
    const { env, poll } = await slowWorld([4, 10, 2, 2], {
      remoteTimeMs: (observation) => Number(observation["time"]),
    });
    await env.reset();
    expect(await poll(0, 0)).toMatchObject({ clockSkewMs: 4_998, observationLagMs: 2 });
    expect(await poll(10, 1)).toMatchObject({ clockSkewMs: 4_998, observationLagMs: 21 });
    expect(await poll(10, 2)).toMatchObject({ clockSkewMs: 4_967, observationLagMs: 1 });
    expect(await poll(10, 3)).toMatchObject({ clockSkewMs: 4_956, observationLagMs: 1 });
    await env.close();
  });

  test("an observation without the world's time is half a round trip old", async () => {
    const { env, poll } = await slowWorld([4, 6], {
      remoteTimeMs: ({ tick }) => (tick === 0 ? 5_000 : undefined),
    });
    await env.reset();
    expect(await poll(0, 0)).toMatchObject({ clockSkewMs: 4_998, observationLagMs: 2 });
    expect(await poll(10, 1)).toMatchObject({ clockSkewMs: 4_998, observationLagMs: 3 });
    await env.close();
  });

  test("the rate of observations is smoothed, and null if two arrive at once", async () => {
    const { env, poll } = await slowWorld([]);
    await env.reset();
    expect((await poll(0, 0))?.framesPerSecond).toBeNull();
    env.act([{ move: 1 }]);
    expect((await poll(0, 1))?.framesPerSecond).toBeNull();
    const { env: steady, poll: wait } = await slowWorld([]);
    await steady.reset();
    await wait(0, 0);
    expect((await wait(10, 1))?.framesPerSecond).toBeCloseTo(100);
    expect((await wait(20, 2))?.framesPerSecond).toBeCloseTo(1_000 / 11);
    await env.close();
    await steady.close();
  });

  test("an agent thinks from a take to the first action after it", async () => {
    const { time, env } = await worlds(1);
    await blockingReset(env).reset();
    env.take();
    time.advance(3);
    env.act(idle(1));
    time.advance(5);
    env.act(idle(1));
    expect(env.take().info.thinkingMs).toBe(3);
    await env.close();
  });

  test("an observation that was taken is not lost", async () => {
    const { time, env } = await worlds(1);
    await blockingReset(env).reset();
    env.take();
    for (const at of [1, 2]) {
      time.advance(10);
      await tick(env, 0, at);
      expect(env.take().info.n[0]?.framesLost).toBe(0);
    }
    await env.close();
  });
});

describe("requests in flight", () => {
  const movesOf = ({ requests }: ScriptedServer): unknown[] =>
    requests.flatMap((request) =>
      request.case === "step" ? request.value.actions.map(({ tensor }) => tensor.data[0]) : [],
    );

  test("are bounded: the newest waiting action is sent, with its own lag", async () => {
    const { time, env, servers } = await worlds(1, undefined, { maxInFlight: 2 });
    await blockingReset(env).reset();
    for (const move of [1, 2, 3, 4]) {
      env.act([{ move }]);
    }
    time.advance(6);
    await tick(env, 0, 3);
    expect(movesOf(servers[0] as ScriptedServer)).toEqual([1, 2, 4]);
    expect(env.take().info.n[0]).toMatchObject({ actionLagMs: 6, roundTripMs: 0 });
    await env.close();
  });

  test("poll with the idle action of the options", async () => {
    const { time, env, servers } = await worlds(1, undefined, { idleAction: { move: 3 } });
    await blockingReset(env).reset();
    time.advance(10);
    await tick(env, 0, 1);
    expect(movesOf(servers[0] as ScriptedServer)).toEqual([3]);
    await env.close();
  });

  test("begin the next sequence: no other request does while one is in flight", async () => {
    let release = (): void => {};
    const { env, servers } = await worlds(1, () => ({
      sequenceLength: 1,
      answer: (request, server) => {
        const steps = server.requests.filter(({ case: kind }) => kind === "step").length;
        if (request.case !== "step" || steps !== 3) {
          return undefined;
        }
        release = () => server.stream.send({ case: "step", value: { state: 1, observations: [] } });
        return "silence";
      },
    }));
    await blockingReset(env).reset();
    env.act([{ move: 1 }]);
    env.act([{ move: 2 }]);
    await tick(env, 0, 1);
    expect(env.take().doneN).toEqual([true]);
    for (let turn = 0; turn < 10; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(servers[0]?.requests.filter(({ case: kind }) => kind === "step")).toHaveLength(3);
    release();
    await env.close();
  });
});

describe("wrappers at their limits", () => {
  test("throttle waits for no frame that ends now", async () => {
    const { time, env } = await worlds(1, undefined, { pollIntervalMs: 100_000 });
    const slow = throttle(env, 100, { time });
    await blockingReset(env).reset();
    const first = slow.step(idle(1));
    time.advance(20);
    await first;
    expect((await slow.step(idle(1))).info.framesMissed).toBe(0);
    await env.close();
  });

  test("timeLimit cuts at its exact millisecond, and does not cut a sequence that ends by itself", async () => {
    const { time, env } = await worlds(2, (index) => ({ sequenceLength: index === 0 ? 1 : 99 }), {
      pollIntervalMs: 1_000,
    });
    const limited = recordStatistics(timeLimit(env, { ms: 50, time }), { time });
    await limited.reset();
    expect((await limited.step(idle(2))).info.n).toMatchObject([
      { truncated: false, sequence: null },
      { truncated: false, sequence: null },
    ]);
    await tick(env, 0, 0);
    await tick(env, 1, 0);
    await limited.step([{ move: 1 }, { move: 1 }]);
    await tick(env, 0, 1);
    await tick(env, 1, 1);
    time.advance(50);
    const { doneN, info } = await limited.step(idle(2));
    expect(doneN).toEqual([true, true]);
    expect(info.n).toMatchObject([
      { truncated: false, sequence: { steps: 2, ms: 50 } },
      { truncated: true, sequence: { steps: 2, ms: 50 } },
    ]);
    await env.close();
  });
});
