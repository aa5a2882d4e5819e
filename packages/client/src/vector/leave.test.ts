// SPDX-License-Identifier: Apache-2.0

import { type Tensor, t, tensor } from "@dm-env-rpc/tensor-codec";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { describe, expect, test } from "vitest";
import { connect } from "../connection/connect.ts";
import { scriptedServer } from "../testing/scripted-server.ts";
import { flags, moves, scripted } from "../testing/slots.ts";
import { vectorize } from "./index.ts";

describe("a slot that leaves", () => {
  test("leaves its world and closes its connection, and the others continue", async () => {
    const { factory, servers } = scripted();
    await using vector = await vectorize(3, factory);
    await vector.reset();
    await vector.leave([1]);
    expect(servers[1]?.requests.at(-1)?.case).toBe("leaveWorld");
    expect(await servers[1]?.closed).toBeUndefined();
    const { valid, truncated, failures, timeSteps, observation } = await vector.step(moves(3));
    expect(valid).toEqual(flags(1, 0, 1));
    expect(truncated).toEqual(flags(0, 0, 0));
    expect(failures).toEqual([null, null, null]);
    expect(timeSteps.map((step) => step?.stepType)).toEqual(["mid", undefined, "mid"]);
    expect(observation).toMatchObject({ tick: { data: new Int32Array([1, 0, 1]) } });
    expect((await vector.reset()).first).toEqual(flags(1, 0, 1));
  });

  test("does not keep recv waiting, and accepts no more actions", async () => {
    const { factory } = scripted(() => ({ sequenceLength: 100 }));
    await using vector = await vectorize(3, factory);
    vector.sendReset();
    await vector.recv();
    await vector.leave([0]);
    expect(() => vector.send(moves(1), [0])).toThrow(/slot 0, which has left/);
    vector.send(moves(2), [1, 2]);
    expect((await vector.recv()).ids).toEqual([1, 2]);
    vector.sendReset();
    expect((await vector.recv()).ids).toEqual([1, 2]);
  });

  test("may leave twice, but not while it steps; once all slots have left, calls reject", async () => {
    await using vector = await vectorize(2, scripted().factory);
    vector.sendReset([0]);
    await expect(vector.leave([0, 1])).rejects.toThrow(/slot 0, which is stepping/);
    await expect(vector.leave([2])).rejects.toThrow(/the vector has slots 0 to 1/);
    await vector.recv();
    await vector.leave([0, 1]);
    await vector.leave([0, 1]);
    expect(() => vector.send(moves(1), [0])).toThrow(/slots have all left/);
    await expect(vector.step(moves(2))).rejects.toThrow(/slots have all left/);
  });

  test("does not return if it was being recreated when it left", async () => {
    const { factory, servers } = scripted((slot) => ({
      sequenceLength: 100,
      answer: (request, server) => {
        if (slot === 0 && request.case === "step" && server.requests.length === 3) {
          server.stream.abort(new Error("crash"));
          return "silence";
        }
        return undefined;
      },
    }));
    let again: () => void = () => undefined;
    const asked = new Promise<void>((resolve) => {
      again = resolve;
    });
    let release: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    await using vector = await vectorize(
      2,
      async (request) => {
        if (request.restarts > 0) {
          again();
          await held;
        }
        return await factory(request);
      },
      { restart: { initialMs: 0 } },
    );
    await vector.reset();
    expect((await vector.step(moves(2))).failures[0]).toBeInstanceOf(Error);
    await asked;
    await vector.leave([0]);
    release();
    expect((await vector.step(moves(2))).valid).toEqual(flags(0, 1));
    while (servers.length < 3) {
      await vector.step(moves(2));
    }
    await servers[2]?.closed;
    expect((await vector.step(moves(2))).valid).toEqual(flags(0, 1));
  });
});

test("slots that leave while the vector closes have left once it is closed", async () => {
  const vector = await vectorize(2, scripted().factory);
  await vector.reset();
  const order: string[] = [];
  await Promise.all([
    vector.close().then(() => order.push("closed")),
    vector.leave([0]).then(() => order.push("left")),
  ]);
  expect(order).toEqual(["closed", "left"]);
});

test("an open recv includes steps of slots that are reset in the meantime", async () => {
  await using vector = await vectorize(2, scripted().factory);
  vector.sendReset([0]);
  const batch = vector.recv();
  vector.sendReset([1]);
  expect((await batch).ids.length).toBeGreaterThan(0);
});

test("without stacking, slots may have different specs, and a batch has their time steps", async () => {
  const observations = [{ near: t.float32([-1]) }, { far: t.uint8([2]) }];
  await using vector = await vectorize(
    2,
    async ({ slot }) => {
      const [client, stream] = memoryStreamPair();
      scriptedServer(stream, {
        observations: observations[slot] ?? {},
        observe: (_name, tick) => (slot === 0 ? new Float32Array(tick) : [slot, tick]),
      });
      return await (await connect({ stream: client })).join("world");
    },
    { stack: false },
  );
  await vector.reset();
  const { observation, timeSteps, valid } = await vector.step(moves(2));
  expect(observation).toEqual({});
  expect(valid).toEqual(flags(1, 1));
  expect(timeSteps.map((step) => step?.observation)).toEqual([
    { near: tensor("float32", [1], new Float32Array(1)) },
    { far: tensor("uint8", [2], new Uint8Array([1, 1])) },
  ]);
});

test("a batch has the environments' own time steps, also with reused buffers", async () => {
  await using vector = await vectorize(2, scripted().factory, { buffers: "reuse" });
  await vector.reset();
  const { timeSteps, observation } = await vector.step(moves(2));
  await vector.step(moves(2));
  expect(timeSteps.map((step) => step?.observation["tick"])).toEqual([1, 1]);
  expect((observation["tick"] as Tensor).data).toEqual(new Int32Array([2, 2]));
});
