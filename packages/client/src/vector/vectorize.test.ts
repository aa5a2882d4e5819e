// SPDX-License-Identifier: Apache-2.0
import { ConnectError } from "@connectrpc/connect";
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { type Tensor, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import type { DynamicAction, DynamicObservation } from "../definition.ts";
import { connected, type Script, type ScriptedServer, status } from "../testing/scripted-server.ts";
import { type SlotFactory, type SlotRequest, vectorize } from "./index.ts";

const observations = {
  tick: t.int32(),
  board: t.uint8([2]),
  me: { hp: t.float64() },
  reward: t.float32(),
};

function observe(slot: number) {
  return (name: string, tick: number): unknown =>
    ({ tick, board: [slot, tick], "me.hp": slot + tick / 10, reward: slot + 1 })[name];
}

/** Slots of scripted servers; `servers` are all that were ever started, in order. */
function scripted(script: (slot: number) => Script = () => ({})) {
  const servers: ScriptedServer[] = [];
  const requests: SlotRequest[] = [];
  const factory: SlotFactory<DynamicAction, DynamicObservation> = async (request) => {
    requests.push(request);
    const { slot } = request;
    const made = await connected({ observations, observe: observe(slot), ...script(slot) });
    servers.push(made.server);
    return await made.connection.join("world");
  };
  return { factory, servers, requests };
}

const moves = (count: number) => Array.from({ length: count }, () => ({ move: 1 }));
const flags = (...values: number[]) => new Uint8Array(values);

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

  test("has fresh arrays for each batch, or the same again", async () => {
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

  test("makes no more slots at once than it may", async () => {
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

  test("of slots that differ is refused, naming the slot", async () => {
    const { factory, servers } = scripted((slot) =>
      slot === 1 ? { observations: { tick: t.float64() }, observe: () => 0 } : {},
    );
    await expect(vectorize(2, factory)).rejects.toMatchObject({
      reason: "spec",
      expected: expect.stringContaining("slot 1"),
    });
    await Promise.all(servers.map(({ closed }) => closed));
  });

  test("of observations of variable length is refused", async () => {
    const { factory } = scripted(() => ({ observations: { tick: t.int32([-1]) } }));
    await expect(vectorize(1, factory)).rejects.toMatchObject({
      reason: "shape",
      specName: "tick",
    });
  });

  test("leaves all worlds and closes all connections", async () => {
    const { factory, servers } = scripted();
    const vector = await vectorize(3, factory);
    await vector.reset();
    await vector.close();
    await Promise.all(servers.map(({ closed }) => closed));
    for (const { requests } of servers) expect(requests.at(-1)?.case).toBe("leaveWorld");
    await expect(vector.step(moves(3))).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  });
});

describe("behaviour 57: order of calls", () => {
  test("step before the first reset is a clear error; further resets are fine", async () => {
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

  test("a wrong number of actions, two calls at once and an unknown slot are errors", async () => {
    await using vector = await vectorize(2, scripted().factory);
    await vector.reset();
    await expect(vector.step(moves(3))).rejects.toThrow(/2 slots, received 3/);
    const open = vector.step(moves(2));
    await expect(vector.step(moves(2))).rejects.toThrow(/another is open/);
    await open;
    expect(() => vector.send(moves(1), [7])).toThrow(/slot 7; there are slots 0 to 1/);
  });

  test("an action that does not fit rejects the step and the vector goes on", async () => {
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

  test("next-step: the step after the last ignores its action and is a first one", async () => {
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

  test("same-step: the next sequence begins at once, and the end is kept where later steps do not reach it", async () => {
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

  test("disabled: a slot that is over has to be reset, by itself if need be", async () => {
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

  test("an interruption is truncated, not terminated", async () => {
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

describe("send and recv", () => {
  test("give the slots that are ready, whichever they are", async () => {
    const held: (() => void)[] = [];
    const { factory } = scripted((slot) => ({
      sequenceLength: 100,
      answer: (request, server) => {
        if (slot !== 0 || request.case !== "step" || server.requests.length !== 3) return undefined;
        held.push(() =>
          server.stream.send({
            case: "step",
            value: {
              state: EnvironmentStateType.RUNNING,
              observations: [
                { uid: 101, tensor: tensor("int32", [], new Int32Array([1])) },
                { uid: 102, tensor: tensor("uint8", [2], new Uint8Array(2)) },
                { uid: 103, tensor: tensor("float64", [], new Float64Array(1)) },
                { uid: 104, tensor: tensor("float32", [], new Float32Array(1)) },
              ],
            },
          }),
        );
        return "silence";
      },
    }));
    await using vector = await vectorize(3, factory, { batchSize: 2 });
    vector.sendReset();
    const first = await vector.recv();
    expect(first.ids).toHaveLength(2);
    vector.send(moves(2), first.ids);
    // Slot 0 never answers its second step; two of the others make a batch, again and again.
    const seen = new Set<number>();
    for (let i = 0; i < 10; i++) {
      const { ids } = await vector.recv({ timeoutMs: 5_000 });
      vector.send(moves(ids.length), ids);
      if (i > 3) for (const id of ids) seen.add(id);
    }
    expect(seen).toEqual(new Set([1, 2]));
    for (const release of held) release();
    let last: readonly number[] = [];
    while (!last.includes(0)) {
      last = (await vector.recv()).ids;
      if (!last.includes(0)) vector.send(moves(last.length), last);
    }
  });

  test("with nothing sent is an error, not a hang", async () => {
    await using vector = await vectorize(2, scripted().factory);
    vector.sendReset([1]);
    expect((await vector.recv()).ids).toEqual([1]);
    await expect(vector.recv()).rejects.toThrow(/nothing sent/);
  });
});

describe("a slot that fails", () => {
  const dying = (slot: number): Script => ({
    sequenceLength: 100,
    answer: (request, server) => {
      if (slot === 1 && request.case === "step" && server.requests.length === 4) {
        server.stream.abort(new ConnectError("crash"));
        return "silence";
      }
      return undefined;
    },
  });

  test("is reported and made again, and the others never wait for it", async () => {
    const { factory, requests } = scripted(dying);
    await using vector = await vectorize(3, factory, { restart: { initialMs: 0 } });
    await vector.reset();
    await vector.step(moves(3));
    const failed = await vector.step(moves(3));
    expect(failed.failures[1]).toBeInstanceOf(ConnectError);
    expect(failed.valid).toEqual(flags(1, 0, 1));
    expect(failed.truncated).toEqual(flags(0, 1, 0));
    expect(failed.observation).toMatchObject({ tick: { data: new Int32Array([2, 0, 2]) } });
    let steps = 2;
    let back = failed;
    while (back.valid[1] === 0) {
      back = await vector.step(moves(3));
      expect(back.observation).toMatchObject({ tick: { data: { 0: ++steps, 2: steps } } });
    }
    expect(back.first).toEqual(flags(0, 1, 0));
    expect(requests.map(({ slot, restarts }) => [slot, restarts])).toContainEqual([1, 1]);
  });

  test("begins to count anew when it is back", async () => {
    const { factory: healthy } = scripted(() => ({ sequenceLength: 2 }));
    let made = 0;
    const first = scripted(dying).factory;
    await using mended = await vectorize(
      2,
      (request) => (request.slot === 1 && made++ === 0 ? first(request) : healthy(request)),
      { restart: { initialMs: 0 } },
    );
    await mended.reset();
    let last = await mended.step(moves(2));
    while (last.finalInfo[1] === null || last.finalInfo[1] === undefined)
      last = await mended.step(moves(2));
    expect(last.finalInfo[1]).toEqual({ state: "terminated", steps: 2, return: 4 });
  });

  test("comes back by itself to recv, and a loop that knows nothing of it goes on", async () => {
    const { factory } = scripted(dying);
    await using vector = await vectorize(2, factory, { batchSize: 1, restart: { initialMs: 0 } });
    vector.sendReset();
    let failures = 0;
    let returns = 0;
    for (let i = 0; i < 60; i++) {
      const batch = await vector.recv({ timeoutMs: 5_000 });
      if (batch.failures[0] !== null) failures++;
      if (batch.ids[0] === 1 && batch.first[0] === 1) returns++;
      vector.send(moves(1), batch.ids);
    }
    expect(failures).toBeGreaterThan(1);
    expect(returns).toBeGreaterThan(1);
  });

  test("is left out for good where it may not be made again, or cannot be", async () => {
    for (const restart of ["never", { maxAttempts: 2, initialMs: 0 }] as const) {
      const { factory } = scripted(dying);
      const once: typeof factory = async (request) => {
        if (request.restarts > 0) throw new ConnectError("nobody there");
        return await factory(request);
      };
      await using vector = await vectorize(2, once, { restart });
      await vector.reset();
      const why = restart === "never" ? /crash/ : /nobody there/;
      expect((await vector.step(moves(2))).failures[1]).toBeNull();
      expect((await vector.step(moves(2))).failures[1]).toBeInstanceOf(ConnectError);
      let failure: Error | null = null;
      while (!why.test(failure?.message ?? "")) {
        const { valid, failures } = await vector.step(moves(2));
        expect(valid).toEqual(flags(1, 0));
        failure = failures[1] ?? null;
      }
      expect((await vector.step(moves(2))).failures[1]).toBe(failure);
    }
  });

  test("because the server refuses is a failure too; when all are gone the step rejects", async () => {
    const { factory } = scripted(() => ({
      answer: (request, server) =>
        request.case === "step" && server.requests.length > 2
          ? status("NOT_FOUND", "the world is gone")
          : undefined,
    }));
    await using vector = await vectorize(2, factory, { restart: "never" });
    await vector.reset();
    await expect(vector.step(moves(2))).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});
