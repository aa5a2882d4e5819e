// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { isTensorError, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { joined, steps } from "../testing/joined.ts";
import { stepped } from "../testing/scripted-server.ts";

describe("behaviour 47: FIRST, MID, LAST", () => {
  test("a sequence has the step types first, mid … last, and the next begins with first", async () => {
    const { connection, environment } = await joined({ sequenceLength: 3 });
    await using _ = connection;
    const types: string[] = [];
    for (let i = 0; i < 6; i++) {
      types.push((await environment.step({ move: 1 })).stepType);
    }
    expect(types).toEqual(["first", "mid", "mid", "last", "first", "mid"]);
  });

  test("a step on a fresh environment or after a last step ignores its action, even if the action does not fit", async () => {
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

  test("reset in mid-sequence begins another sequence; after a last step it sends no reset request", async () => {
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

  test("a step that is called during a reset follows the first step", async () => {
    const { connection, environment } = await joined();
    await using _ = connection;
    await environment.reset();
    const [reset, step] = await Promise.all([environment.reset(), environment.step({})]);
    expect([reset.stepType, step.stepType]).toEqual(["first", "mid"]);
  });

  test("after a reset of the world on the same connection, the next step is a first step", async () => {
    const { connection, environment } = await joined({ sequenceLength: 9 });
    await using _ = connection;
    await environment.reset();
    const [, step] = await Promise.all([connection.resetWorld("world"), environment.step({})]);
    expect(step.first()).toBe(true);
  });

  test("a step that timed out still belongs to the sequence, and its late response is not paired with the next step", async () => {
    const { connection, environment, server } = await joined({
      sequenceLength: 9,
      answer: (request, { requests }) =>
        request.case === "step" && steps(requests).length === 1 ? "silence" : undefined,
    });
    await using _ = connection;
    await expect(environment.step({}, { timeoutMs: 1 })).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
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
  test("the discount is 0 at a natural end and 1 at an interruption", async () => {
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

test("behaviour 49: first(), mid() and last() of a copied time step follow its own step type", async () => {
  const { connection, environment } = await joined();
  await using _ = connection;
  await environment.reset();
  const step = await environment.step({});
  const truncated: typeof step = { ...step, stepType: "last" };
  expect([step.first(), step.mid(), step.last()]).toEqual([false, true, false]);
  expect([truncated.first(), truncated.mid(), truncated.last()]).toEqual([false, false, true]);
  expect(truncated.observation).toBe(step.observation);
});

describe("behaviour 5: illegal states", () => {
  test("an end after an end rejects that step with an error that names both states", async () => {
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

  test("an unknown state rejects the step", async () => {
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
    ["an observation of another shape", [observed(101, [2], new Int32Array(2))], /"tick".*shape/],
    [
      "an observation of another dtype",
      [{ uid: 101, tensor: tensor("float32", [], new Float32Array(1)) }],
      /"tick".*int32/,
    ],
    ["an observation that was not requested", [observed(77, [], new Int32Array(1))], /UID 77/],
    ["a missing observation", [], /without "tick"/],
  ])("%s rejects only its step", async (_name, observations, message) => {
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

  test("observations may arrive in any order", async () => {
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
