// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { type Tensor, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import type { Script } from "../testing/scripted-server.ts";
import { flags, moves, scripted } from "../testing/slots.ts";
import { vectorize } from "./index.ts";

describe("a vector", () => {
  test("stacks observations into one tensor per name", async () => {
    await using vector = await vectorize(3, scripted().factory);
    const first = await vector.reset();
    expect(first.ids).toEqual([0, 1, 2]);
    expect(first.observation).toEqual({
      tick: tensor("int32", [3], new Int32Array(3)),
      board: tensor("uint8", [3, 2], new Uint8Array([0, 0, 1, 0, 2, 0])),
      me: { hp: tensor("float64", [3], new Float64Array([0, 1, 2])) },
    });
    expect(first.first).toEqual(flags(1, 1, 1));
    expect(first.reward).toEqual(new Float64Array(3));
    const next = await vector.step(moves(3));
    expect(next.observation).toMatchObject({
      tick: { data: new Int32Array([1, 1, 1]) },
      board: { data: new Uint8Array([0, 1, 1, 1, 2, 1]) },
    });
    expect(next.reward).toEqual(new Float64Array([1, 2, 3]));
    expect(next.discount).toEqual(new Float64Array([1, 1, 1]));
  });

  test("allocates arrays for each batch, or reuses them", async () => {
    for (const buffers of ["fresh", "reuse"] as const) {
      await using vector = await vectorize(2, scripted().factory, { buffers });
      const first = await vector.reset();
      const second = await vector.step(moves(2));
      const same = buffers === "reuse";
      expect(first.reward === second.reward).toBe(same);
      expect(first.observation["tick"] === second.observation["tick"]).toBe(same);
      expect(first.observation).toMatchObject({ tick: { data: new Int32Array(2).fill(+same) } });
    }
  });

  test("gives each slot a seed and a number", async () => {
    const { factory, requests } = scripted();
    await using _ = await vectorize(3, factory, { seed: 40n });
    expect(requests.map(({ slot, seed, restarts }) => [slot, seed, restarts])).toEqual([
      [0, 40n, 0],
      [1, 41n, 0],
      [2, 42n, 0],
    ]);
  });

  test("creates at most maxConcurrency slots concurrently", async () => {
    const { factory } = scripted();
    let making = 0;
    let most = 0;
    const counting: typeof factory = async (request) => {
      most = Math.max(most, ++making);
      try {
        return await factory(request);
      } finally {
        making--;
      }
    };
    await using vector = await vectorize(9, counting, { maxConcurrency: 2 });
    expect(most).toBe(2);
    expect(vector.size).toBe(9);
  });

  test("refuses a slot whose specs differ, and names it", async () => {
    const { factory, servers } = scripted((slot) =>
      slot === 1 ? { observations: { tick: t.float64() }, observe: () => 0 } : {},
    );
    await expect(vectorize(2, factory)).rejects.toMatchObject({
      reason: "spec",
      expected: expect.stringContaining("slot 1"),
    });
    await Promise.all(servers.map(({ closed }) => closed));
  });

  test("refuses observations of variable length", async () => {
    const { factory } = scripted(() => ({ observations: { tick: t.int32([-1]) } }));
    await expect(vectorize(1, factory)).rejects.toMatchObject({
      reason: "shape",
      specName: "tick",
    });
  });

  test("leaves all worlds and closes all connections when it is closed", async () => {
    const { factory, servers } = scripted();
    const vector = await vectorize(3, factory);
    await vector.reset();
    await vector.close();
    await Promise.all(servers.map(({ closed }) => closed));
    for (const { requests } of servers) {
      expect(requests.at(-1)?.case).toBe("leaveWorld");
    }
    await expect(vector.step(moves(3))).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });
});

describe("behaviour 57: order of calls", () => {
  test("a step before the first reset rejects, and asks for a reset; further resets are allowed", async () => {
    await using vector = await vectorize(2, scripted().factory);
    await expect(vector.step(moves(2))).rejects.toThrow(
      /step before the first reset; call reset\(\)/,
    );
    expect(() => vector.send(moves(2))).toThrow(/sendReset/);
    await vector.reset();
    await vector.step(moves(2));
    expect((await vector.reset()).first).toEqual(flags(1, 1));
    expect((await vector.reset()).first).toEqual(flags(1, 1));
  });

  test("a wrong number of actions, two concurrent calls and an unknown slot are errors", async () => {
    await using vector = await vectorize(2, scripted().factory);
    await vector.reset();
    await expect(vector.step(moves(3))).rejects.toThrow(/2 slots, received 3/);
    const open = vector.step(moves(2));
    await expect(vector.step(moves(2))).rejects.toThrow(/another is open/);
    await open;
    expect(() => vector.send(moves(1), [7])).toThrow(
      /cannot use slot 7; the vector has slots 0 to 1/,
    );
  });

  test("a record of actions that does not fit, and settings that cannot be packed, are refused without losing their slots", async () => {
    const actions = { arm: { at: t.int32([2]) } };
    const { factory, requests } = scripted(() => ({ actions }));
    await using vector = await vectorize(2, factory);
    await vector.reset();
    const fits = { arm: { at: Int32Array.of(1, 2) } };
    await expect(vector.step([fits, { arm: 3 }])).rejects.toMatchObject({
      ...{ name: "TensorError", specName: "arm" },
    });
    const settings = (slot: number) => (slot === 1 ? { level: [[1], [1, 2]] } : {});
    await expect(vector.reset({ settings })).rejects.toMatchObject({
      ...{ name: "TensorError", specName: "level" },
    });
    expect((await vector.step([fits, fits])).valid).toEqual(flags(1, 1));
    expect(requests).toHaveLength(2);
  });

  test("an action that does not fit rejects the step, and the vector continues", async () => {
    await using vector = await vectorize(2, scripted().factory);
    await vector.reset();
    await expect(vector.step([{ move: 1 }, { move: 99 }])).rejects.toMatchObject({
      name: "TensorError",
      specName: "move",
    });
    const next = await vector.step(moves(2));
    expect(next.observation).toMatchObject({ tick: { data: new Int32Array([2, 1]) } });
  });
});

describe("autoreset", () => {
  const lengths = (slot: number): Script => ({ sequenceLength: slot === 0 ? 2 : 3 });

  test("next-step: the step after a last step ignores its action and is a first step", async () => {
    await using vector = await vectorize(2, scripted(lengths).factory);
    await vector.reset();
    await vector.step(moves(2));
    const ended = await vector.step(moves(2));
    expect(ended.terminated).toEqual(flags(1, 0));
    expect(ended.observation).toMatchObject({ tick: { data: new Int32Array([2, 2]) } });
    expect(ended.finalInfo).toEqual([{ state: "terminated", steps: 2, return: 2 }, null]);
    const next = await vector.step(moves(2));
    expect(next.first).toEqual(flags(1, 0));
    expect(next.terminated).toEqual(flags(0, 1));
    expect(next.observation).toMatchObject({ tick: { data: new Int32Array([0, 3]) } });
    expect(next.reward).toEqual(new Float64Array([0, 2]));
  });

  test("same-step: the next sequence begins at once, and later steps do not overwrite finalObservation", async () => {
    await using vector = await vectorize(2, scripted(lengths).factory, {
      autoresetMode: "same-step",
      buffers: "reuse",
    });
    await vector.reset();
    await vector.step(moves(2));
    const ended = await vector.step(moves(2));
    expect(ended.terminated).toEqual(flags(1, 0));
    expect(ended.first).toEqual(flags(1, 0));
    expect(ended.reward).toEqual(new Float64Array([1, 2]));
    expect(ended.observation).toMatchObject({ tick: { data: new Int32Array([0, 2]) } });
    const { finalObservation, finalInfo } = ended;
    await vector.step(moves(2));
    await vector.step(moves(2));
    expect(finalObservation).toEqual([
      { tick: 2, board: tensor("uint8", [2], new Uint8Array([0, 2])), me: { hp: 0.2 } },
      null,
    ]);
    expect(finalInfo[0]).toEqual({ state: "terminated", steps: 2, return: 2 });
    const board = finalObservation[0]?.["board"] as Tensor<"uint8">;
    expect(board.data.buffer.byteLength).toBe(2);
  });

  test("same-step: finalObservation has records whose names are those of a tensor's parts", async () => {
    const { factory } = scripted(() => ({
      sequenceLength: 1,
      observations: { of: { dtype: t.int32(), data: t.uint8([2]) } },
      observe: (name) => (name === "of.dtype" ? 7 : [1, 2]),
    }));
    await using vector = await vectorize(1, factory, { autoresetMode: "same-step" });
    await vector.reset();
    const { finalObservation } = await vector.step(moves(1));
    const data = tensor("uint8", [2], Uint8Array.of(1, 2));
    expect(finalObservation).toEqual([{ of: { dtype: 7, data } }]);
  });

  test("disabled: a slot whose sequence has ended has to be reset, for example with a mask", async () => {
    await using vector = await vectorize(2, scripted(lengths).factory, {
      autoresetMode: "disabled",
    });
    await vector.reset();
    await vector.step(moves(2));
    expect((await vector.step(moves(2))).terminated).toEqual(flags(1, 0));
    await expect(vector.step(moves(2))).rejects.toThrow(/ended: 0; reset them with a mask/);
    const reset = await vector.reset({ mask: [true, false] });
    expect(reset.first).toEqual(flags(1, 0));
    expect(reset.valid).toEqual(flags(1, 0));
    expect((await vector.step(moves(2))).observation).toMatchObject({
      tick: { data: new Int32Array([1, 3]) },
    });
  });

  test("a sequence that the world interrupts is truncated, not terminated", async () => {
    const { factory } = scripted(() => ({
      sequenceLength: 1,
      end: EnvironmentStateType.INTERRUPTED,
    }));
    await using vector = await vectorize(1, factory);
    await vector.reset();
    const { terminated, truncated, finalInfo } = await vector.step(moves(1));
    expect([terminated, truncated]).toEqual([flags(0), flags(1)]);
    expect(finalInfo[0]?.state).toBe("interrupted");
  });
});
