// SPDX-License-Identifier: Apache-2.0
import { type Connection, connect, properties } from "@dm-env-rpc/client";
import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
import { t } from "@dm-env-rpc/tensor-codec";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { hasPython, type ServerProcess, startPythonServer } from "./programs.ts";

/** The specs of python_server.py's world, as a TypeScript agent declares them. */
const line = {
  actions: {
    step: t.int32({ min: -1, max: 1 }),
    push: t.float32([2], { min: [-1, -2], max: [1, 2] }),
    say: t.string(),
    legacy: t.int8({ min: -3, max: 5 }),
  },
  observations: {
    place: t.int64(),
    grid: t.float64([2, 3]),
    heard: { text: t.string(), length: t.uint32() },
    path: t.int32([-1]),
    reward: t.float32(),
  },
};

describe.skipIf(!hasPython)("our client on a server of the official helpers", () => {
  let server: ServerProcess;
  let connection: Connection;
  beforeAll(async () => {
    server = await startPythonServer();
  });
  afterAll(() => server?.close());
  beforeEach(async () => {
    connection = await connect(server.address);
  });
  afterEach(() => connection.close());

  it("behaviour 47: steps are first, mid and last, with rewards except on the first", async () => {
    const world = await connection.createWorld({ settings: { length: 3 } });
    await using environment = await connection.join(world, { as: line });
    let step = await environment.step({ step: 1, say: "ignored" });
    expect([step.stepType, step.reward, step.discount]).toEqual(["first", null, null]);
    expect(step.observation.heard).toEqual({ text: "", length: 0 });
    step = await environment.step({ step: 1, say: "ß\u{1f600}", push: [0.25, 2] });
    expect([step.stepType, step.reward, step.discount]).toEqual(["mid", 2.25, 1]);
    expect(step.observation).toMatchObject({
      place: 1n,
      grid: { dtype: "float64", shape: [2, 3], data: Float64Array.of(1, 2, 3, 4, 5, 6) },
      heard: { text: "ß\u{1f600}", length: 2 },
      path: { dtype: "int32", shape: [2], data: Int32Array.of(0, 1) },
    });
    await environment.step({ step: -1 });
    step = await environment.step({});
    expect([step.stepType, step.state, step.discount]).toEqual(["last", "terminated", 0]);
    expect((await environment.step({ step: 1 })).first()).toBe(true);
    const again = await environment.reset();
    expect([again.stepType, again.observation.place]).toEqual(["first", 0n]);
  });

  it("behaviour 33: stepMany continues across the ends of sequences", async () => {
    const world = await connection.createWorld({ settings: { length: 3 } });
    await using environment = await connection.join(world, { as: line });
    const steps = await environment.stepMany(Array.from({ length: 40 }, () => ({ step: 1 })));
    expect(steps.map(({ stepType }) => stepType)).toEqual(
      Array.from({ length: 10 }, () => ["first", "mid", "mid", "last"]).flat(),
    );
  });

  it("behaviour 16: the scalar bounds of 1.0.x are read", async () => {
    await using environment = await connection.join(await connection.createWorld());
    expect(environment.specs.actions["legacy"]).toMatchObject({ dtype: "int8", min: -3, max: 5 });
    await environment.reset();
    await expect(environment.step({ legacy: 6 })).rejects.toThrow(/legacy.*5/);
    await environment.step({ legacy: 5 });
  });

  it("behaviour 7: the server's error for a mistake has its code", async () => {
    await expect(connection.createWorld({ settings: { length: 0 } })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining("length"),
    });
    await expect(connection.join("nowhere")).rejects.toMatchObject({ code: "NOT_FOUND" });
  });

  it("behaviour 45: properties are listed, read and written", async () => {
    const tree = properties(connection);
    const keys = (await tree.tree()).map(({ key, writable }) => [key, writable]);
    expect(keys).toEqual([
      ["worlds", false],
      ["note", true],
    ]);
    await tree.set("note", "hello");
    expect(await tree.get("note")).toBe("hello");
    expect(await tree.get("worlds")).toBeTypeOf("number");
    await expect(tree.get("nothing")).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(tree.set("worlds", 3)).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
    await expect(tree.set("note", 3, { dtype: "int32" })).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
    });
  });

  it("behaviour 56: four environments are one vector, and each restarts automatically", async () => {
    const slots = remoteSlots(server.address, {
      as: line,
      observations: ["place"],
      createSettings: ({ slot }) => ({ length: 2 + slot }),
    });
    await using environments = await vectorize(4, slots);
    const places: number[][] = [];
    await environments.reset();
    for (let i = 0; i < 6; i++) {
      const { observation } = await environments.step(
        Array.from({ length: 4 }, () => ({ step: 1 })),
      );
      places.push(Array.from(observation.place.data as BigInt64Array, Number));
    }
    expect(places.map(([short]) => short)).toEqual([1, 2, 0, 1, 2, 0]);
    expect(places.map(([, , , long]) => long)).toEqual([1, 2, 3, 4, 5, 0]);
  });
});

describe.skipIf(!hasPython)("the pings of our client to a server of grpcio", () => {
  /**
   * Shortest interval that a server of grpcio accepts without data, and a longer one, as our default of 330 s is longer than
   * the server's of 300 s. It is twice as long here, because two pings come closer together when a machine stands still.
   */
  const leastMs = 1_500;
  const intervalMs = 3_000;

  it("do not close an idle connection", async () => {
    await using server = await startPythonServer(String(leastMs));
    await using connection = await connect(server.address, { pingIntervalMs: intervalMs });
    await connection.createWorld();
    // The server closes a connection at the third ping that is too early.
    const later = new Promise((resolve) => setTimeout(() => resolve("open"), 5.5 * intervalMs));
    expect(await Promise.race([connection.closed, later])).toBe("open");
    expect(await connection.createWorld()).toBeTypeOf("string");
  });

  it("close it where they are more frequent than it accepts", async () => {
    await using server = await startPythonServer(String(leastMs));
    await using connection = await connect(server.address, { pingIntervalMs: 100 });
    await connection.createWorld();
    const error = await connection.closed;
    expect(String(error)).toContain("too_many_pings");
  });
});
