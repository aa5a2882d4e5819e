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

/** Creates worlds with a reward of 1 per step, which tick with each poll. */
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

/** Waits until an environment reaches a tick. */
async function tick(env: Env, index: number, value: number): Promise<void> {
  while (env.peek()[index]?.["tick"] !== value) {
    await env.next({ timeoutMs: 60_000 });
  }
}

const idle = (count: number) => Array.from({ length: count }, () => ({}));

describe("behaviour 54: a real-time world", () => {
  test("continues without steps of an agent; its rewards are summed, and frames that are not taken are counted", async () => {
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

  test("reports lags, thinking time, clock skew and throughput in info", async () => {
    const { time, env, servers } = await worlds(
      1,
      () => ({
        answer: (request, server) => {
          // A round trip takes 4 ms, and the world's clock is 5 s ahead.
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

test("behaviour 54: a reset discards the rewards of the old sequence and their lag", async () => {
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

test("behaviour 54: rewardLagMs is the age of the oldest reward that has not been taken", async () => {
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
  test("returns at once, and observations are null until the first one arrives", async () => {
    const { env } = await worlds(2);
    expect(await env.reset()).toEqual([null, null]);
    expect((await env.step(idle(2))).observationN).toEqual([null, null]);
    await tick(env, 0, 0);
    await tick(env, 1, 0);
    expect((await env.step(idle(2))).observationN).toMatchObject([{ tick: 0 }, { tick: 0 }]);
    expect(await env.reset({ mask: [true, false] })).toMatchObject([null, { tick: 0 }]);
    await env.close();
  });

  test("waits for the first observations with blockingReset", async () => {
    const { env } = await worlds(2);
    expect(await blockingReset(env).reset()).toMatchObject([{ tick: 0 }, { tick: 0 }]);
    await env.close();
  });
});

describe("behaviour 56: vectors", () => {
  test("an environment that is done resets by itself; its observation is null until the next sequence begins, and the others continue", async () => {
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

  test("the vector loop of Universe runs unchanged", async () => {
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

  test("an environment that fails is reported, and the others continue", async () => {
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

test("behaviour 57: a step before the first reset rejects, and asks for a reset; further resets are allowed", async () => {
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
  test("acts at once, waits for the end of the frame, and returns the newest observation and the sum of the rewards", async () => {
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

  test("never sums rewards across the end of a sequence", async () => {
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

  test("does not add the reward of an action that was in flight when its sequence ended", async () => {
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

  test("adopts the sequence that an action in flight has begun, instead of resetting again", async () => {
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
      // Of four actions, the first and the third end a sequence; the second and the fourth begin another.
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

  test("polls with an empty action, and only after the end of a sequence was taken", async () => {
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

  test("counts the frames that ended before the agent acted", async () => {
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
  test("timeLimit ends a sequence after a number of steps: it is done and truncated, and its environment resets", async () => {
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

  test("timeLimit continues to count if a mask resets other environments", async () => {
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

  test("timeLimit ends a sequence after a time, and recordStatistics reports its statistics", async () => {
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
  /** Creates a world whose steps have the given round trips, with equal latency in both directions. */
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

  test("the shortest round trip determines the clock skew; of two equal ones, the later", async () => {
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

  test("the lag of an observation without the world's time is half a round trip", async () => {
    const { env, poll } = await slowWorld([4, 6], {
      remoteTimeMs: ({ tick }) => (tick === 0 ? 5_000 : undefined),
    });
    await env.reset();
    expect(await poll(0, 0)).toMatchObject({ clockSkewMs: 4_998, observationLagMs: 2 });
    expect(await poll(10, 1)).toMatchObject({ clockSkewMs: 4_998, observationLagMs: 3 });
    await env.close();
  });

  test("framesPerSecond is smoothed, and null while two observations have arrived at the same time", async () => {
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

  test("thinkingMs is the time from a take to the first action after it", async () => {
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

  test("framesLost does not count observations that were taken", async () => {
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

  test("are at most maxInFlight; the newest waiting action is sent next, with its own lag", async () => {
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

  test("include polls, which send the given idle action", async () => {
    const { time, env, servers } = await worlds(1, undefined, { idleAction: { move: 3 } });
    await blockingReset(env).reset();
    time.advance(10);
    await tick(env, 0, 1);
    expect(movesOf(servers[0] as ScriptedServer)).toEqual([3]);
    await env.close();
  });

  test("begin the next sequence: no further request is sent for it while one is in flight", async () => {
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
  test("throttle does not wait for a frame that ends now", async () => {
    const { time, env } = await worlds(1, undefined, { pollIntervalMs: 100_000 });
    const slow = throttle(env, 100, { time });
    await blockingReset(env).reset();
    const first = slow.step(idle(1));
    time.advance(20);
    await first;
    expect((await slow.step(idle(1))).info.framesMissed).toBe(0);
    await env.close();
  });

  test("timeLimit ends a sequence at the exact millisecond, and does not truncate a sequence that ends by itself", async () => {
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
