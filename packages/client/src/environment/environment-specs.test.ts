// SPDX-License-Identifier: Apache-2.0
import { isTensorError, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { joined, settingsOf, steps } from "../testing/joined.ts";
import { connected, plainActions, type Script } from "../testing/scripted-server.ts";

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

  test("dotted names become nested observations and actions", async () => {
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

  test("specs are array, bounded, discrete and string specs of dm_env", async () => {
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

  test("an action that is unknown, does not fit or is not a record is refused and not sent", async () => {
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
  test("reward and discount are not in the observation unless requested by name", async () => {
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

  test("a step requests only the observations named in the join; the name of a group includes everything in it", async () => {
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

  test("an agent may join without observations", async () => {
    const { connection, environment } = await joined(
      { observations: { tick: t.int32() } },
      { observations: [] },
    );
    await using _ = connection;
    expect((await environment.reset()).observation).toEqual({});
  });

  test("without a reward observation the reward is 0", async () => {
    const { connection, environment } = await joined({ observations: {} });
    await using _ = connection;
    await environment.reset();
    expect(await environment.step({})).toMatchObject({ reward: 0, discount: 1 });
  });

  test("custom functions can compute the reward and the discount", async () => {
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

  test("a reward that is not a single number needs a function that converts it", async () => {
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

  test("an int64, a bool and a tensor of one element are converted to a reward", async () => {
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

describe("behaviour 53: specs that a reset changes", () => {
  const observations = (resets: number) =>
    resets < 2 ? { tick: t.int32() } : { tick: t.int32([2]), more: t.float32() };
  const observe = (name: string) => (name === "tick" ? undefined : 7);

  test("are an error that names the old and the new spec, and every later step rejects with it", async () => {
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

  test("are accepted with changedSpecs: accept", async () => {
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

  test("are accepted only if they still match the definition", async () => {
    const { connection, environment } = await joined(
      { observations },
      { changedSpecs: "accept", as: { actions: {}, observations: { tick: t.int32() } } },
    );
    await using _ = connection;
    await environment.reset();
    await environment.reset();
    await expect(environment.reset()).rejects.toMatchObject({ reason: "spec", specName: "tick" });
  });

  test("reset sends its settings, also if no sequence is running", async () => {
    const { connection, server, environment } = await joined();
    await using _ = connection;
    expect((await environment.reset({ settings: { hero: { class: "mage" } } })).first()).toBe(true);
    expect(server.requests[1]).toMatchObject({ case: "reset" });
    expect(Object.keys(settingsOf(server.requests[1]))).toEqual(["hero.class"]);
  });
});

describe("the definition of a join", () => {
  const definition = {
    actions: { move: t.int32({ min: 0, max: 4 }) },
    observations: { tick: t.int32() },
    joinSettings: { level: t.uint8() },
  };

  test("determines the requested observations and the dtypes of settings", async () => {
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

  test("is refused if it differs from the server's specs, and the agent leaves", async () => {
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

  test("is not compared if it derives its specs from settings", async () => {
    const { connection } = await connected();
    await using _ = connection;
    const environment = await connection.join("world", {
      as: { actions: () => plainActions, observations: () => ({ tick: t.int32([7]) }) },
    });
    expect((await environment.reset()).observation).toEqual({ tick: 0 });
  });
});
