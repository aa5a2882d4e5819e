// SPDX-License-Identifier: Apache-2.0
import { Code } from "@connectrpc/connect";
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { isTensorError, type ProcessRequest, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import type { JoinOptions } from "./environment.ts";
import {
  connected,
  plainActions,
  type Script,
  status,
  stepped,
} from "./testing/scripted-server.ts";

async function joined(script: Script = {}, options: JoinOptions = {}) {
  const { connection, server } = await connected(script);
  return { connection, server, environment: await connection.join("world", options) };
}

function steps(requests: readonly ProcessRequest[]) {
  return requests.flatMap((request) => (request.case === "step" ? [request.value] : []));
}

function settingsOf(request: ProcessRequest | undefined): object {
  return request?.case === "reset" ? request.value.settings : {};
}

describe("behaviour 47: FIRST, MID, LAST", () => {
  test("a sequence goes first, mid … last, and the next begins with first", async () => {
    const { connection, environment } = await joined({ sequenceLength: 3 });
    await using _ = connection;
    const types: string[] = [];
    for (let i = 0; i < 6; i++) types.push((await environment.step({ move: 1 })).stepType);
    expect(types).toEqual(["first", "mid", "mid", "last", "first", "mid"]);
  });

  test("step on a fresh environment and after a last step ignores its action, even one that does not fit", async () => {
    const { connection, server, environment } = await joined({ sequenceLength: 1 });
    await using _ = connection;
    expect((await environment.step({ jump: "high" })).first()).toBe(true);
    expect((await environment.step({ move: 1 })).last()).toBe(true);
    expect((await environment.step({ move: 99 })).first()).toBe(true);
    expect(steps(server.requests).map(({ actions }) => actions.length)).toEqual([0, 1, 0]);
  });

  test("first has neither reward nor discount, mid and last have both", async () => {
    const { connection, environment } = await joined({ observe: () => 3 });
    await using _ = connection;
    const [first, mid, last] = [
      await environment.reset(),
      await environment.step({}),
      await environment.step({}),
    ];
    expect(first).toMatchObject({ stepType: "first", reward: null, discount: null });
    expect(mid).toMatchObject({ stepType: "mid", reward: 3, discount: 1 });
    expect(last).toMatchObject({ stepType: "last", reward: 3, discount: 0 });
  });

  test("reset in mid-sequence begins another; after a last step it costs no request of its own", async () => {
    const { connection, server, environment } = await joined();
    await using _ = connection;
    await environment.reset();
    await environment.step({});
    expect((await environment.reset()).first()).toBe(true);
    await environment.step({});
    expect((await environment.step({})).last()).toBe(true);
    expect((await environment.reset()).first()).toBe(true);
    expect(server.requests.filter((request) => request.case === "reset")).toHaveLength(1);
  });

  test("a step that is called during a reset comes after its first step", async () => {
    const { connection, environment } = await joined();
    await using _ = connection;
    await environment.reset();
    const [reset, step] = await Promise.all([environment.reset(), environment.step({})]);
    expect([reset.stepType, step.stepType]).toEqual(["first", "mid"]);
  });

  test("a reset of the world from the same connection makes the next step a first one", async () => {
    const { connection, environment } = await joined({ sequenceLength: 9 });
    await using _ = connection;
    await environment.reset();
    const [, step] = await Promise.all([connection.resetWorld("world"), environment.step({})]);
    expect(step.first()).toBe(true);
  });

  test("a step that timed out still counts: the next one is what it would have been", async () => {
    const { connection, environment, server } = await joined({
      sequenceLength: 9,
      answer: (request, { requests }) =>
        request.case === "step" && steps(requests).length === 1 ? "silence" : undefined,
    });
    await using _ = connection;
    await expect(environment.step({}, { timeoutMs: 1 })).rejects.toMatchObject({
      code: Code.DeadlineExceeded,
    });
    await server.received(2);
    const tick = tensor("int32", [], new Int32Array([0]));
    const reward = tensor("float32", [], new Float32Array([0]));
    server.stream.send({
      case: "step",
      value: {
        state: EnvironmentStateType.RUNNING,
        observations: [
          { uid: 101, tensor: tick },
          { uid: 102, tensor: reward },
        ],
      },
    });
    expect((await environment.step({})).stepType).toBe("mid");
  });
});

describe("behaviour 48: discounts", () => {
  test("a natural end discounts with 0, an interruption with 1", async () => {
    for (const [end, discount, state] of [
      [EnvironmentStateType.TERMINATED, 0, "terminated"],
      [EnvironmentStateType.INTERRUPTED, 1, "interrupted"],
    ] as const) {
      const { connection, environment } = await joined({ end, sequenceLength: 1 });
      await using _ = connection;
      await environment.reset();
      expect(await environment.step({})).toMatchObject({ stepType: "last", state, discount });
    }
  });

  test("a discount may be 0 in mid-sequence and above 0 at the end", async () => {
    const { connection, environment } = await joined({
      observations: { discount: t.float64() },
      observe: (_name, tick) => (tick === 1 ? 0 : 0.5),
    });
    await using _ = connection;
    const sequence = [await environment.reset(), ...(await environment.stepMany([{}, {}]))];
    expect(sequence.map(({ stepType, discount }) => [stepType, discount])).toEqual([
      ["first", null],
      ["mid", 0],
      ["last", 0.5],
    ]);
  });
});

test("behaviour 49: a copy of a time step with another step type answers for itself", async () => {
  const { connection, environment } = await joined();
  await using _ = connection;
  await environment.reset();
  const step = await environment.step({});
  const truncated: typeof step = { ...step, stepType: "last" };
  expect([step.first(), step.mid(), step.last()]).toEqual([false, true, false]);
  expect([truncated.first(), truncated.mid(), truncated.last()]).toEqual([false, false, true]);
  expect(truncated.observation).toBe(step.observation);
});

describe("behaviour 51: specs mirror values", () => {
  const observations = {
    board: t.uint8([2, 2]),
    self: {
      name: t.string(),
      health: t.float32({ min: 0, max: 1 }),
      arm: { angle: t.float64([2]) },
    },
  };
  const actions = { move: t.discrete(5), arm: { turn: t.float32([2], { min: -1, max: 1 }) } };

  test("observations and actions nest as dotted names say", async () => {
    const { connection, server, environment } = await joined({
      observations,
      actions,
      observe: (name) => ({ "self.name": "bob", "self.arm.angle": [1, 2] })[name] ?? 1,
    });
    await using _ = connection;
    const { observation } = await environment.reset();
    expect(observation).toEqual({
      board: tensor("uint8", [2, 2], new Uint8Array(4).fill(1)),
      self: {
        name: "bob",
        health: 1,
        arm: { angle: tensor("float64", [2], new Float64Array([1, 2])) },
      },
    });
    await environment.step({ move: 3, arm: { turn: [0.5, -0.5] } });
    await environment.step({ "arm.turn": [0.25, 0] });
    const [, nested, dotted] = steps(server.requests);
    expect(nested?.actions.map(({ uid }) => uid)).toEqual([1, 2]);
    expect(dotted?.actions).toMatchObject([
      { uid: 2, tensor: { data: new Float32Array([0.25, 0]) } },
    ]);
  });

  test("they are array, bounded, discrete and string specs", async () => {
    const { connection, environment } = await joined({ observations, actions });
    await using _ = connection;
    expect(environment.actionSpec()).toMatchObject({
      move: { kind: "discreteArray", name: "move", dtype: "int32", shape: [], numValues: 5 },
      arm: {
        turn: { kind: "boundedArray", name: "arm.turn", shape: [2], minimum: -1, maximum: 1 },
      },
    });
    expect(environment.observationSpec()).toMatchObject({
      board: { kind: "array", dtype: "uint8", shape: [2, 2] },
      self: {
        name: { kind: "stringArray", shape: [] },
        health: { kind: "boundedArray", minimum: 0, maximum: 1 },
        arm: { angle: { kind: "array", dtype: "float64", name: "self.arm.angle" } },
      },
    });
    expect(environment.rewardSpec()).toMatchObject({ kind: "array", dtype: "float64", shape: [] });
    expect(environment.discountSpec()).toMatchObject({
      kind: "boundedArray",
      minimum: 0,
      maximum: 1,
    });
  });

  test("an action that is unknown, does not fit or is no record is refused and not sent", async () => {
    const { connection, server, environment } = await joined({ actions });
    await using _ = connection;
    await environment.reset();
    const before = server.requests.length;
    for (const [action, reason, name] of [
      [{ jump: 1 }, "name", "jump"],
      [{ move: 9 }, "bounds", "move"],
      [{ move: "up" }, "dtype", "move"],
      [{ arm: { turn: [0, 0, 0] } }, "shape", "arm.turn"],
      [{ arm: 3 }, "value", "arm"],
    ] as const) {
      const error: unknown = await environment.step(action).catch((caught: unknown) => caught);
      expect(isTensorError(error) && [error.reason, error.specName]).toEqual([reason, name]);
    }
    expect(server.requests).toHaveLength(before);
    expect((await environment.step({ move: 1 })).mid()).toBe(true);
  });
});

describe("behaviour 52: reward, discount and requested observations", () => {
  test("reward and discount are not in the observation unless asked for by name", async () => {
    const observations = { tick: t.int32(), reward: t.float32(), discount: t.float32() };
    const plain = await joined({ observations });
    expect(Object.keys((await plain.environment.reset()).observation)).toEqual(["tick"]);
    await plain.connection.close();
    const asked = await joined({ observations }, { observations: ["reward"] });
    await using _ = asked.connection;
    expect(await asked.environment.reset()).toMatchObject({
      reward: null,
      observation: { reward: 0 },
    });
    const { requestedObservations } = steps(asked.server.requests)[0] ?? {};
    expect(requestedObservations).toEqual([102, 103]);
  });

  test("only what is asked for is asked of the server; the name of a nesting stands for all in it", async () => {
    const { connection, server, environment } = await joined(
      { observations: { a: { b: t.int32(), c: t.int32() }, d: t.int32(), e: t.int32() } },
      { observations: ["d", "a"] },
    );
    await using _ = connection;
    expect((await environment.reset()).observation).toEqual({ a: { b: 0, c: 0 }, d: 0 });
    expect(steps(server.requests)[0]?.requestedObservations).toEqual([101, 102, 103]);
    await expect(connection.join("world", { observations: ["f"] })).rejects.toMatchObject({
      reason: "name",
      specName: "f",
    });
  });

  test("no observation at all may be asked for", async () => {
    const { connection, environment } = await joined(
      { observations: { tick: t.int32() } },
      { observations: [] },
    );
    await using _ = connection;
    expect((await environment.reset()).observation).toEqual({});
  });

  test("without such observations the reward is 0", async () => {
    const { connection, environment } = await joined({ observations: {} });
    await using _ = connection;
    await environment.reset();
    expect(await environment.step({})).toMatchObject({ reward: 0, discount: 1 });
  });

  test("both can be made otherwise", async () => {
    const { connection, environment } = await joined(
      { observe: (_name, tick) => tick },
      {
        reward: ({ value, observation, stepType }) =>
          Number(value) + 10 * Number(observation["tick"]) + (stepType === "last" ? 100 : 0),
        discount: ({ state }) => (state === "terminated" ? 0.25 : 0.75),
      },
    );
    await using _ = connection;
    const sequence = [await environment.reset(), ...(await environment.stepMany([{}, {}]))];
    expect(sequence.map(({ reward, discount }) => [reward, discount])).toEqual([
      [null, null],
      [11, 0.75],
      [122, 0.25],
    ]);
  });

  test("a reward that is not one number needs a function that makes it one", async () => {
    const script: Script = { observations: { reward: t.float32([2]) }, observe: () => [1, 2] };
    const { connection, server } = await connected(script);
    await using _ = connection;
    await expect(connection.join("world")).rejects.toMatchObject({ specName: "reward" });
    expect(server.requests.at(-1)?.case).toBe("leaveWorld");
    const environment = await connection.join("world", {
      reward: ({ value }) =>
        typeof value === "object" && "data" in value ? Number(value.data[1]) : 0,
    });
    await environment.reset();
    expect((await environment.step({})).reward).toBe(2);
  });

  test("an int64, a bool and a one-element reward are numbers", async () => {
    for (const [spec, value] of [
      [t.int64(), 3n],
      [t.bool(), true],
      [t.float32([1]), [3]],
    ] as const) {
      const { connection, environment } = await joined({
        observations: { reward: spec },
        observe: () => value,
      });
      await using _ = connection;
      await environment.reset();
      expect((await environment.step({})).reward).toBe(Number(value));
    }
  });
});

describe("behaviour 53: specs that change on a reset", () => {
  const observations = (resets: number) =>
    resets < 2 ? { tick: t.int32() } : { tick: t.int32([2]), more: t.float32() };
  const observe = (name: string) => (name === "tick" ? undefined : 7);

  test("are an error that names both, and nothing goes on after it", async () => {
    const { connection, environment } = await joined({ observations, observe });
    await using _ = connection;
    await environment.reset();
    expect((await environment.reset()).first()).toBe(true);
    const error: unknown = await environment.reset().catch((caught: unknown) => caught);
    expect(isTensorError(error) && error.message).toMatch(
      /"tick".*int32 of shape \[\] with UID 101.*int32 of shape \[2\] with UID 101/,
    );
    await expect(environment.step({})).rejects.toBe(error);
  });

  test("are accepted where the client opted in", async () => {
    const { connection, environment } = await joined(
      { observations, observe: (name, tick) => (name === "more" ? 7 : tick) },
      { changedSpecs: "accept" },
    );
    await using _ = connection;
    await environment.reset();
    await environment.reset();
    expect((await environment.reset()).observation).toEqual({
      tick: tensor("int32", [2], new Int32Array(2)),
      more: 7,
    });
    expect(Object.keys(environment.specs.observations)).toEqual(["tick", "more"]);
  });

  test("are accepted only while they still are what the definition says", async () => {
    const { connection, environment } = await joined(
      { observations },
      { changedSpecs: "accept", as: { actions: {}, observations: { tick: t.int32() } } },
    );
    await using _ = connection;
    await environment.reset();
    await environment.reset();
    await expect(environment.reset()).rejects.toMatchObject({ reason: "spec", specName: "tick" });
  });

  test("settings of a reset are sent, whatever the state", async () => {
    const { connection, server, environment } = await joined();
    await using _ = connection;
    expect((await environment.reset({ settings: { hero: { class: "mage" } } })).first()).toBe(true);
    expect(server.requests[1]).toMatchObject({ case: "reset" });
    expect(Object.keys(settingsOf(server.requests[1]))).toEqual(["hero.class"]);
  });
});

describe("a definition", () => {
  const definition = {
    actions: { move: t.int32({ min: 0, max: 4 }) },
    observations: { tick: t.int32() },
    joinSettings: { level: t.uint8() },
  };

  test("says what to ask for, and how to pack settings", async () => {
    const script = { observations: { more: t.float32(), tick: t.int32(), reward: t.float32() } };
    const { connection, server } = await connected(script);
    await using _ = connection;
    const environment = await connection.join("world", { as: definition, settings: { level: 3 } });
    expect((await environment.reset()).observation).toEqual({ tick: 0 });
    expect(steps(server.requests)[0]?.requestedObservations).toEqual([102, 103]);
    expect(server.requests[0]).toMatchObject({
      value: { settings: { level: { payload: { case: "uint8s" } } } },
    });
  });

  test("that is not the server's is refused, and the agent leaves", async () => {
    const { connection, server } = await connected({ observations: { tick: t.float32() } });
    await using _ = connection;
    await expect(
      connection.join("world", { as: definition, settings: { level: 3 } }),
    ).rejects.toMatchObject({
      reason: "spec",
      specName: "tick",
      expected: expect.stringContaining("int32"),
      received: expect.stringContaining("float32"),
    });
    expect(server.requests.at(-1)?.case).toBe("leaveWorld");
  });

  test("of specs that are made from settings is not compared", async () => {
    const { connection } = await connected();
    await using _ = connection;
    const environment = await connection.join("world", {
      as: { actions: () => plainActions, observations: () => ({ tick: t.int32([7]) }) },
    });
    expect((await environment.reset()).observation).toEqual({ tick: 0 });
  });
});

describe("behaviour 5: state sequences that are illegal", () => {
  test("an end after an end rejects that step with an error that says both", async () => {
    const states = [
      EnvironmentStateType.RUNNING,
      EnvironmentStateType.TERMINATED,
      EnvironmentStateType.INTERRUPTED,
      EnvironmentStateType.RUNNING,
    ];
    const { connection, environment } = await joined({
      observations: {},
      answer: (request) =>
        request.case === "step"
          ? stepped(states.shift() ?? EnvironmentStateType.RUNNING)
          : undefined,
    });
    await using _ = connection;
    await environment.stepMany([{}, {}]);
    await expect(environment.step({})).rejects.toThrow(
      /expected running after terminated, received interrupted/,
    );
    expect((await environment.step({})).first()).toBe(true);
  });

  test("a state that is none rejects the step", async () => {
    const { connection, environment } = await joined({
      observations: {},
      answer: (request) => (request.case === "step" ? stepped(0) : undefined),
    });
    await using _ = connection;
    await expect(environment.step({})).rejects.toThrow(/received state 0/);
  });
});

describe("behaviour 36: observations that do not fit their specs", () => {
  const observed = (uid: number, shape: number[], data: Int32Array) => ({
    uid,
    tensor: tensor("int32", shape, data),
  });

  test.each([
    ["another shape", [observed(101, [2], new Int32Array(2))], /"tick".*shape/],
    [
      "another dtype",
      [{ uid: 101, tensor: tensor("float32", [], new Float32Array(1)) }],
      /"tick".*int32/,
    ],
    ["one that was not asked for", [observed(77, [], new Int32Array(1))], /UID 77/],
    ["none of what was asked for", [], /without "tick"/],
  ])("%s rejects the step and nothing else", async (_name, observations, message) => {
    let bad = true;
    const { connection, environment } = await joined({
      observations: { tick: t.int32() },
      answer: (request) =>
        request.case === "step" && bad
          ? { case: "step", value: { state: EnvironmentStateType.RUNNING, observations } }
          : undefined,
    });
    await using _ = connection;
    const error: unknown = await environment.step({}).catch((caught: unknown) => caught);
    expect(isTensorError(error) && error.message).toMatch(message);
    bad = false;
    expect((await environment.step({})).mid()).toBe(true);
  });

  test("observations may come in any order", async () => {
    const { connection, environment } = await joined({
      observations: { a: t.int32(), b: t.int32() },
      answer: (request) =>
        request.case === "step"
          ? {
              case: "step",
              value: {
                state: EnvironmentStateType.RUNNING,
                observations: [
                  observed(102, [], new Int32Array([2])),
                  observed(101, [], new Int32Array([1])),
                ],
              },
            }
          : undefined,
    });
    await using _ = connection;
    expect((await environment.step({})).observation).toEqual({ a: 1, b: 2 });
  });
});

describe("behaviour 33: steps that overlap", () => {
  test("cross the ends of sequences", async () => {
    const { connection, environment } = await joined({ sequenceLength: 2 });
    await using _ = connection;
    const steps = await Promise.all([1, 2, 3, 4, 0].map((move) => environment.step({ move })));
    expect(steps.map(({ stepType }) => stepType)).toEqual(["first", "mid", "last", "first", "mid"]);
  });

  test("stepMany does the same with one promise, beyond the window too", async () => {
    const { connection } = await connected({ sequenceLength: 4 }, { maxInFlight: 3 });
    await using _ = connection;
    const environment = await connection.join("world");
    const [steps, after] = await Promise.all([
      environment.stepMany(Array.from({ length: 100 }, () => ({ move: 2 }))),
      environment.step({ move: 1 }),
    ]);
    expect(steps.map(({ observation }) => observation["tick"])).toEqual(
      Array.from({ length: 100 }, (_, i) => i % 5),
    );
    expect(after.first()).toBe(true);
    await expect(environment.stepMany([])).resolves.toEqual([]);
  });

  test("stepMany takes actions from a generator only as there is room, and lets it finish", async () => {
    const { connection, server } = await connected(
      { answer: (request) => (request.case === "step" ? "silence" : undefined) },
      { maxInFlight: 2 },
    );
    const environment = await connection.join("world");
    let taken = 0;
    let returned = false;
    function* actions() {
      try {
        for (;;) {
          taken++;
          yield { move: 1 };
        }
      } finally {
        returned = true;
      }
    }
    const controller = new AbortController();
    const steps = environment.stepMany(actions(), { signal: controller.signal });
    await server.received(3);
    expect(taken).toBeLessThanOrEqual(3);
    controller.abort();
    await expect(steps).rejects.toMatchObject({ code: Code.Canceled });
    expect(returned).toBe(true);
    await connection.close({ timeoutMs: 1 });
  });

  test("stepMany rejects with the first error and makes no more steps", async () => {
    const { connection, server, environment } = await joined({ sequenceLength: 9 });
    await using _ = connection;
    await environment.reset();
    await expect(
      environment.stepMany([{ move: 1 }, { move: 99 }, { move: 1 }]),
    ).rejects.toMatchObject({ reason: "bounds" });
    expect((await environment.step({})).observation).toEqual({ tick: 2 });
    expect(steps(server.requests)).toHaveLength(3);
  });
});

describe("leaving", () => {
  test("close leaves the world, once, and later steps say so", async () => {
    const { connection, server, environment } = await joined();
    await using _ = connection;
    await Promise.all([environment.close(), environment.close()]);
    expect(server.requests.map((request) => request.case)).toEqual(["joinWorld", "leaveWorld"]);
    await expect(environment.step({})).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    await expect(environment.reset()).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });

  test("destroyOnClose destroys it too", async () => {
    const { connection, server, environment } = await joined({}, { destroyOnClose: true });
    await using _ = connection;
    await environment.close();
    expect(server.requests.at(-1)).toMatchObject({
      case: "destroyWorld",
      value: { worldName: "world" },
    });
  });

  test("a leave of the connection is a leave of its environment, and the world can be joined again", async () => {
    const { connection, environment } = await joined();
    await using _ = connection;
    await connection.leave();
    await expect(environment.step({})).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
    const again = await connection.join("world");
    expect((await again.step({})).first()).toBe(true);
    await environment.close();
    expect((await again.step({})).mid()).toBe(true);
  });

  test("disposal is silent when the connection is gone", async () => {
    const { connection, environment } = await joined();
    await connection.close();
    await environment.close();
  });

  test("a server that never answers the leave does not hang the close", async () => {
    const { connection, environment } = await joined({
      answer: (request) => (request.case === "leaveWorld" ? "silence" : undefined),
    });
    await expect(environment.close({ timeoutMs: 1 })).rejects.toMatchObject({
      code: Code.DeadlineExceeded,
    });
    await connection.close({ timeoutMs: 1 });
  });
});

test("an error Status rejects its step alone and changes nothing", async () => {
  let refuse = false;
  const { connection, environment } = await joined({
    answer: (request) =>
      request.case === "step" && refuse ? status("INVALID_ARGUMENT", "no") : undefined,
  });
  await using _ = connection;
  await environment.reset();
  refuse = true;
  await expect(environment.step({})).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  refuse = false;
  expect(await environment.step({})).toMatchObject({ stepType: "mid", observation: { tick: 1 } });
});
