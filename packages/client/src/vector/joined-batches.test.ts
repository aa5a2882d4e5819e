// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type PackedTensor,
  pack,
  type Specs,
  t,
  tensor,
  unpack,
} from "@dm-env-rpc/tensor-codec";
import { unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { describe, expect, test } from "vitest";
import { type Script, status } from "../testing/scripted-server.ts";
import { batching, flags, moves } from "../testing/slots.ts";
import { vectorize } from "./index.ts";

const long = { sequenceLength: 100 };
const gone = new DmEnvRpcError("UNAVAILABLE", "no server there");
const soon = { restart: { initialMs: 0, maxMs: 1, maxAttempts: 100_000 } } as const;
const nulls = (count: number) => new Array<null>(count).fill(null);
const rows = (...values: number[]) => new Float64Array(values);

/** Batches on two servers. Each server can be switched off: it then refuses steps and joins. */
function failing(sequenceLength = 100) {
  const isDown = [false, false];
  const script = (slot: number): Script => ({
    sequenceLength,
    answer: ({ case: kind }) =>
      isDown[slot % 2] === true && kind === "step"
        ? status("NOT_FOUND", `the world of ${slot} is gone`)
        : undefined,
  });
  const made = batching(2, script, ({ server }) => {
    if (isDown[server] === true) {
      throw gone;
    }
    return false;
  });
  return { ...made, isDown };
}

/** Batches on two servers that record the requests of each slot. */
function watched(script: Script = long) {
  const requests = new Map<number, ProcessRequest[]>();
  const made = batching(2, (slot) => {
    const received: ProcessRequest[] = [];
    requests.set(slot, received);
    return {
      ...script,
      answer: (request) => {
        received.push(request);
        return undefined;
      },
    };
  });
  /** Returns the values of the last action of each slot. */
  const lastActions = (): unknown[] =>
    [...requests]
      .sort(([a], [b]) => a - b)
      .map(([, received]) => {
        const last = received.at(-1);
        const tensors = last?.case === "step" ? last.value.actions : [];
        return tensors.flatMap(({ tensor: packed }) => [...unpack(packed as PackedTensor).data]);
      });
  return { ...made, requests, lastActions };
}

describe("batches on several servers", () => {
  test("share the slots round-robin, and no server joins a batch without slots", async () => {
    const { slots, joined } = batching(2, () => long);
    await using vector = await vectorize(5, slots, { seed: 3n, autoresetMode: "same-step" });
    expect([vector.size, vector.batchSize, vector.autoresetMode]).toEqual([5, 5, "same-step"]);
    const shared = { seed: 3n, autoresetMode: "same-step" };
    expect(joined).toMatchObject([
      { server: 0, slots: [0, 2, 4], ...shared },
      { server: 1, slots: [1, 3], ...shared },
    ]);
    await using one = await vectorize(1, slots);
    expect([one.size, joined.length]).toEqual([1, 3]);
  });

  test("give each slot its row, in every column and list", async () => {
    const { slots } = batching(2, (slot) => ({ sequenceLength: slot === 3 ? 1 : 100 }));
    await using vector = await vectorize(5, slots);
    const first = await vector.reset();
    expect([first.ids, first.first, first.reward, first.discount]).toEqual([
      [0, 1, 2, 3, 4],
      flags(1, 1, 1, 1, 1),
      rows(0, 0, 0, 0, 0),
      rows(1, 1, 1, 1, 1),
    ]);
    const batch = await vector.step(moves(5));
    expect(batch.observation).toEqual({
      tick: { dtype: "int32", shape: [5], data: new Int32Array(5).fill(1) },
      board: {
        dtype: "uint8",
        shape: [5, 2],
        data: Uint8Array.of(0, 1, 1, 1, 2, 1, 3, 1, 4, 1),
      },
      me: { hp: { dtype: "float64", shape: [5], data: rows(0.1, 1.1, 2.1, 3.1, 4.1) } },
    });
    expect([batch.reward, batch.discount]).toEqual([rows(1, 2, 3, 4, 5), rows(1, 1, 1, 0, 1)]);
    expect([batch.terminated, batch.truncated, batch.first, batch.valid]).toEqual([
      ...[flags(0, 0, 0, 1, 0), flags(0, 0, 0, 0, 0)],
      ...[flags(0, 0, 0, 0, 0), flags(1, 1, 1, 1, 1)],
    ]);
    expect(batch.timeSteps.map((step) => step?.reward)).toEqual([1, 2, 3, 4, 5]);
    expect(batch.finalInfo).toEqual([
      ...nulls(3),
      { state: "terminated", steps: 1, return: 4 },
      null,
    ]);
    expect([batch.finalObservation, batch.failures, batch.refusals]).toEqual([
      ...[nulls(5), nulls(5), nulls(5)],
    ]);
  });

  test("keep the last observation of each slot that ended", async () => {
    const { slots } = batching(2, (slot) => ({ sequenceLength: slot === 2 ? 1 : 100 }));
    await using vector = await vectorize(3, slots, { autoresetMode: "same-step" });
    await vector.reset();
    const { finalObservation } = await vector.step(moves(3));
    expect(finalObservation).toMatchObject([null, null, { board: { data: Uint8Array.of(2, 1) } }]);
  });

  test.each([8, 16, 17, 40])("copy rows of %d elements", async (length) => {
    const observations = { wide: t.uint32([length]) };
    const { slots } = batching(2, (slot) => ({
      observations,
      observe: (_name, tick) => Uint32Array.from({ length }, (_, i) => 100 * slot + tick + i),
    }));
    await using vector = await vectorize(4, slots);
    await vector.reset();
    const { observation } = await vector.step(moves(4));
    const expected = [0, 100, 200, 300].flatMap((from) =>
      Array.from({ length }, (_, i) => from + 1 + i),
    );
    expect(observation).toMatchObject({
      wide: { shape: [4, length], data: Uint32Array.from(expected) },
    });
  });

  test("copy rows of strings", async () => {
    const { slots } = batching(2, (slot) => ({
      observations: { name: t.string([20]) },
      observe: () => new Array(20).fill(`slot ${slot}`),
    }));
    await using vector = await vectorize(2, slots);
    const { observation } = await vector.reset();
    const names = [...new Array(20).fill("slot 0"), ...new Array(20).fill("slot 1")];
    expect(observation).toMatchObject({ name: { shape: [2, 20], data: names } });
  });

  test.each([
    ["fresh", false],
    ["reuse", true],
  ] as const)("with buffers: %s, reuse their arrays: %s", async (buffers, areSame) => {
    const { slots } = batching(2, () => long);
    await using vector = await vectorize(2, slots, { buffers });
    const before = await vector.reset();
    const after = await vector.step(moves(2));
    expect(before.reward === after.reward).toBe(areSame);
    expect(before.observation["board"] === after.observation["board"]).toBe(areSame);
  });

  /** Specs of the observation `of`, and its values, by the text that names them in an error. */
  const kinds: Readonly<Record<string, [Specs, unknown]>> = {
    "no observation of that name": [{}, 0],
    "int32 [2]": [{ of: t.int32([2]) }, new Int32Array(2)],
    "int32 [3]": [{ of: t.int32([3]) }, new Int32Array(3)],
    "uint8 [2]": [{ of: t.uint8([2]) }, new Uint8Array(2)],
    "a record": [{ of: { x: t.int32() } }, 0],
  };

  test.each([
    ["int32 [2]", "no observation of that name"],
    ["int32 [2]", "uint8 [2]"],
    ["int32 [2]", "int32 [3]"],
    ["int32 [2]", "a record"],
    ["a record", "no observation of that name"],
    ["a record", "int32 [2]"],
    ["no observation of that name", "int32 [2]"],
    ["no observation of that name", "a record"],
  ])("cannot be combined if one has %s and another has %s", async (...texts) => {
    const { slots } = batching(2, (slot) => {
      const [specs, value] = kinds[texts[slot] as string] as [Specs, unknown];
      return {
        observations: { tick: t.int32(), ...specs },
        observe: (name) => (name === "tick" ? 0 : value),
      };
    });
    await using vector = await vectorize(2, slots);
    await expect(vector.reset()).rejects.toMatchObject({
      ...{ reason: "spec", specName: "of", received: texts[1] },
      expected: `slot 1 to have the spec of the first slot: ${texts[0]}`,
    });
  });
});

describe("a vector of several batches", () => {
  const actions = { move: t.int32(), arm: { at: t.int32([2]) } };

  test.each<[string, object, number[][]]>([
    [
      "a list",
      [0, 1, 2, 3].map((slot) => ({ move: slot, arm: { at: [slot, 9] } })),
      [0, 1, 2, 3].map((slot) => [slot, slot, 9]),
    ],
    [
      "arrays with a row for each slot",
      { move: Int32Array.of(4, 5, 6, 7), arm: { at: Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7) } },
      [0, 1, 2, 3].map((slot) => [4 + slot, 2 * slot, 2 * slot + 1]),
    ],
    [
      "plain arrays",
      {
        move: [4, 5, 6, 7],
        arm: {
          at: [
            [0, 1],
            [2, 3],
            [4, 5],
            [6, 7],
          ],
        },
      },
      [0, 1, 2, 3].map((slot) => [4 + slot, 2 * slot, 2 * slot + 1]),
    ],
    [
      "tensors",
      {
        move: tensor("int32", [4], Int32Array.of(4, 5, 6, 7)),
        arm: { at: tensor("int32", [4, 2], Int32Array.of(0, 1, 2, 3, 4, 5, 6, 7)) },
      },
      [0, 1, 2, 3].map((slot) => [4 + slot, 2 * slot, 2 * slot + 1]),
    ],
    ["a number for all", { move: 3 }, [[3], [3], [3], [3]]],
  ])("accepts %s as actions", async (_what, given, expected) => {
    const { slots, lastActions } = watched({ ...long, actions });
    await using vector = await vectorize(4, slots);
    await vector.reset();
    await vector.step(given as never);
    const sorted = lastActions().map((values) => [...(values as number[])]);
    expect(sorted).toEqual(expected);
  });

  test.each<[string, object, RegExp]>([
    ["a list that is too short", moves(3), /expected an action for each of 4 slots, received 3/],
    [
      "an array that cannot be divided",
      { move: Int32Array.of(1, 2, 3) },
      /expected elements for each of 4 slots, received 3 elements/,
    ],
  ])("refuses %s before any slot steps", async (_what, given, text) => {
    const { slots } = batching(2, () => long);
    await using vector = await vectorize(4, slots);
    await vector.reset();
    await expect(vector.step(given as never)).rejects.toMatchObject({
      name: "TensorError",
      reason: "shape",
      message: expect.stringMatching(text),
    });
    const { observation } = await vector.step(moves(4));
    expect(observation).toMatchObject({ tick: { data: new Int32Array(4).fill(1) } });
  });

  test("refuses calls before the first reset, while a step is open, and for only some slots", async () => {
    const { slots } = batching(2, () => long);
    const vector = await vectorize(2, slots);
    const misuse = (message: RegExp) => ({
      ...{ code: "FAILED_PRECONDITION", origin: "client" },
      message: expect.stringMatching(message),
    });
    await expect(vector.step(moves(2))).rejects.toMatchObject(misuse(/before the first reset/));
    await expect(vector.recv()).rejects.toMatchObject(misuse(/nothing sent/));
    const opened = vector.reset();
    await expect(vector.step(moves(2))).rejects.toMatchObject(misuse(/while a step is open/));
    await expect(vector.reset()).rejects.toMatchObject(misuse(/while a step is open/));
    await opened;
    vector.send(moves(2), [0, 1]);
    await expect(vector.step(moves(2))).rejects.toMatchObject(misuse(/while a step is open/));
    expect(() => vector.send(moves(2))).toThrow(/while a step is open/);
    expect(() => vector.sendReset()).toThrow(/while a step is open/);
    await vector.recv();
    await expect(vector.recv()).rejects.toMatchObject(misuse(/nothing sent/));
    for (const ids of [[0], [1, 0], [0, 1, 1]]) {
      const wrong = `expected the ids 0 to 1 in order, received ${ids.length} ids`;
      expect(() => vector.send(moves(ids.length), ids)).toThrow(wrong);
      expect(() => vector.sendReset(ids)).toThrow(wrong);
    }
    await expect(vector.leave([0])).rejects.toMatchObject(misuse(/expected all 2, received 1/));
    await vector.leave([]);
    expect((await vector.step(moves(2))).valid).toEqual(flags(1, 1));
    await vector.leave([1, 0]);
    await expect(vector.step(moves(2))).rejects.toMatchObject(misuse(/closed/));
    await expect(vector.reset()).rejects.toMatchObject(misuse(/closed/));
    expect(() => vector.send(moves(2))).toThrow(/closed/);
  });

  test("steps no slot after its first reset has failed on one server", async () => {
    const { slots, isDown } = failing();
    await using vector = await vectorize(2, slots);
    isDown[1] = true;
    await expect(vector.reset()).rejects.toMatchObject({ code: "NOT_FOUND" });
    await expect(vector.step(moves(2))).rejects.toMatchObject({
      ...{ code: "FAILED_PRECONDITION", message: expect.stringMatching(/before the first reset/) },
    });
  });

  test("refuses slots in another order, although some are in their place", async () => {
    const { slots } = batching(2, () => long);
    await using vector = await vectorize(4, slots);
    await vector.reset();
    const refusal = { code: "INVALID_ARGUMENT", origin: "client" };
    expect(() => vector.send(moves(4), [0, 2, 1, 3])).toThrow(expect.objectContaining(refusal));
  });

  test.each([
    ["closes", (vector: AsyncDisposable & { close(): Promise<void> }) => vector.close()],
    ["is disposed", (vector: AsyncDisposable) => vector[Symbol.asyncDispose]()],
  ])("leaves the slots of every server when it %s", async (_, end) => {
    const { slots, servers } = batching(2, () => long);
    const vector = await vectorize(4, slots);
    await vector.reset();
    await end(vector);
    expect(servers).toHaveLength(4);
    await Promise.all(servers.map(({ closed }) => closed));
  });

  test("keeps the step for the next recv if one recv is canceled, before or after the servers answer", async () => {
    const { slots } = batching(2, () => long);
    await using vector = await vectorize(2, slots);
    vector.sendReset();
    const signal = AbortSignal.abort(new Error("no time"));
    await expect(vector.recv({ signal })).rejects.toThrow(/no time/);
    for (let turn = 0; turn < 20; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    await expect(vector.recv({ signal })).rejects.toThrow(/no time/);
    expect((await vector.recv()).first).toEqual(flags(1, 1));
    await expect(vector.step([{ move: 1 }, { move: 99 }])).rejects.toThrow(/99/);
    vector.send([{ move: 1 }, { move: 99 }]);
    await expect(vector.recv()).rejects.toThrow(/99/);
    vector.send(moves(2));
    expect((await vector.recv()).valid).toEqual(flags(1, 1));
  });
});

describe("a reset of several batches", () => {
  test("resets only the slots in its mask", async () => {
    const { slots } = batching(2, () => long);
    await using vector = await vectorize(4, slots);
    await vector.reset();
    await vector.step(moves(4));
    const { first, valid } = await vector.reset({ mask: [true, false, false, true] });
    expect([first, valid]).toEqual([flags(1, 0, 0, 1), flags(1, 0, 0, 1)]);
  });

  test("sends the settings of each slot", async () => {
    const { slots, requests } = watched();
    await using vector = await vectorize(3, slots);
    await vector.reset({ settings: (slot) => ({ level: 10 + slot }) });
    const levels = [0, 1, 2].map((slot) => {
      const reset = requests.get(slot)?.find((request) => request.case === "reset");
      const level = reset?.case === "reset" ? reset.value.settings["level"] : undefined;
      return level && unpackTensor(level);
    });
    expect(levels).toEqual([10, 11, 12].map((level) => pack(level)));
  });
});

describe("a lost batch", () => {
  test("is absent until it has been recreated, and the others continue", async () => {
    const { slots, isDown, joined } = failing();
    await using vector = await vectorize(4, slots, soon);
    await vector.reset();
    isDown[1] = true;
    const lost = await vector.step(moves(4));
    expect([lost.valid, lost.truncated]).toEqual([flags(1, 0, 1, 0), flags(0, 1, 0, 1)]);
    expect(lost.failures).toMatchObject([null, { code: "NOT_FOUND" }, null, { code: "NOT_FOUND" }]);
    const absent = await vector.step(moves(4));
    expect([absent.valid, absent.truncated]).toEqual([flags(1, 0, 1, 0), flags(0, 0, 0, 0)]);
    expect(absent.failures).toEqual(nulls(4));
    expect(absent.observation).toMatchObject({ tick: { data: Int32Array.of(2, 0, 2, 0) } });
    isDown[1] = false;
    let steps = 2;
    let back = absent;
    while (back.valid[1] === 0) {
      back = await vector.step(moves(4));
      steps += 1;
      expect(back.observation).toMatchObject({ tick: { data: { 0: steps, 2: steps } } });
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect([back.first, back.valid]).toEqual([flags(0, 1, 0, 1), flags(1, 1, 1, 1)]);
    const next = await vector.step(moves(4));
    expect(next.observation).toMatchObject({
      tick: { data: Int32Array.of(steps + 1, 1, steps + 1, 1) },
    });
    expect(joined.filter(({ server }) => server === 0)).toHaveLength(1);
  });

  test("begins a new sequence if all slots are reset after it has been recreated", async () => {
    const { slots, isDown, joined } = failing();
    await using vector = await vectorize(2, slots, soon);
    await vector.reset();
    isDown[1] = true;
    await vector.step(moves(2));
    isDown[1] = false;
    await vector.step(moves(2));
    while (joined.length < 3) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    let begun = await vector.reset();
    while (begun.valid[1] === 0) {
      begun = await vector.reset();
    }
    expect([begun.first, begun.valid]).toEqual([flags(1, 1), flags(1, 1)]);
    const { observation } = await vector.step(moves(2));
    expect(observation).toMatchObject({ tick: { data: Int32Array.of(1, 1) } });
  });

  test("delivers its first steps although a reset with a mask leaves its slots out", async () => {
    const { slots, isDown } = failing();
    await using vector = await vectorize(2, slots, soon);
    await vector.reset();
    isDown[1] = true;
    await vector.step(moves(2));
    isDown[1] = false;
    let back = await vector.reset({ mask: [true, false] });
    while (back.valid[1] === 0) {
      await new Promise((resolve) => setImmediate(resolve));
      back = await vector.reset({ mask: [true, false] });
    }
    expect([back.first, back.valid]).toEqual([flags(1, 1), flags(1, 1)]);
    const { observation } = await vector.step(moves(2));
    expect(observation).toMatchObject({ tick: { data: Int32Array.of(1, 1) } });
  });

  test("receives the settings of a reset after it has been recreated", async () => {
    const isDown = [false, false];
    const withSettings: number[] = [];
    const { slots } = batching(2, (slot) => ({
      ...long,
      answer(request) {
        if (request.case === "reset" && "level" in request.value.settings) {
          withSettings.push(slot);
        }
        return isDown[slot] === true && request.case === "step"
          ? status("NOT_FOUND", "the world is gone")
          : undefined;
      },
    }));
    await using vector = await vectorize(2, slots, soon);
    await vector.reset();
    isDown[1] = true;
    await vector.step(moves(2));
    isDown[1] = false;
    // Begins the recreation.
    await vector.step(moves(2));
    let isBack = false;
    while (!isBack) {
      await new Promise((resolve) => setTimeout(resolve, 5));
      const { valid } = await vector.reset({ settings: () => ({ level: 1 }) });
      isBack = valid[1] === 1;
    }
    expect(new Set(withSettings)).toEqual(new Set([0, 1]));
  });

  test("delays the step if all batches are lost", async () => {
    const { slots, isDown } = failing();
    await using vector = await vectorize(2, slots, soon);
    await vector.reset();
    isDown.fill(true);
    expect((await vector.step(moves(2))).truncated).toEqual(flags(1, 1));
    let isWaiting = true;
    const step = vector.step(moves(2)).finally(() => {
      isWaiting = false;
    });
    for (let turn = 0; turn < 20; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(isWaiting).toBe(true);
    isDown[1] = false;
    expect((await step).valid).toEqual(flags(0, 1));
  });

  test("delays the step until it has been recreated if the other batch has failed permanently", async () => {
    const { slots, isDown } = failing();
    const restart = { initialMs: 0, maxAttempts: 2 };
    await using vector = await vectorize(2, slots, { restart });
    await vector.reset();
    isDown[1] = true;
    await vector.step(moves(2));
    await vector.step(moves(2));
    for (let turn = 0; turn < 20; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    isDown[0] = true;
    expect((await vector.step(moves(2))).truncated).toEqual(flags(1, 0));
    isDown[0] = false;
    const { first, valid } = await vector.step(moves(2));
    expect([first, valid]).toEqual([flags(1, 0), flags(1, 0)]);
  });

  test("stays absent if restarts are off; once all batches are lost, the step rejects", async () => {
    const { slots, isDown, joined } = failing();
    await using vector = await vectorize(2, slots, { restart: "never" });
    await vector.reset();
    isDown[1] = true;
    const { failures } = await vector.step(moves(2));
    expect(failures).toMatchObject([null, { code: "NOT_FOUND" }]);
    isDown[1] = false;
    expect((await vector.step(moves(2))).valid).toEqual(flags(1, 0));
    isDown[0] = true;
    expect((await vector.step(moves(2))).truncated).toEqual(flags(1, 0));
    await expect(vector.step(moves(2))).rejects.toMatchObject({
      message: expect.stringMatching(/world of 0 is gone/),
    });
    expect(joined).toHaveLength(2);
  });
});

describe("slots that cannot all join batches", () => {
  test("have a stream each if one server does not support batches, and other batches are closed", async () => {
    const { slots, servers, joined, requests } = batching(
      2,
      () => long,
      ({ server }) => server === 1,
    );
    await using vector = await vectorize(4, slots);
    expect(joined).toHaveLength(2);
    expect(await Promise.all(servers.slice(0, 2).map(({ closed }) => closed))).toEqual([
      ...[undefined, undefined],
    ]);
    expect(requests.slice(2).map(({ slot }) => slot)).toEqual([0, 1, 2, 3]);
    await vector.reset();
    expect((await vector.step(moves(4))).valid).toEqual(flags(1, 1, 1, 1));
  });

  test("are not created if one server fails: the call rejects, and other batches are closed", async () => {
    const { slots, servers } = batching(
      2,
      () => long,
      ({ server }) => {
        if (server === 1) {
          throw gone;
        }
        return false;
      },
    );
    await expect(vectorize(4, slots)).rejects.toBe(gone);
    expect(await Promise.all(servers.map(({ closed }) => closed))).toEqual([undefined, undefined]);
  });

  test.each([{ batch: false }, { stack: false }, { batchSize: 2 }])(
    "have a stream each with the options %j",
    async (options) => {
      const { slots, joined } = batching(2, () => long);
      await using vector = await vectorize(4, slots, options);
      expect([vector.size, joined]).toEqual([4, []]);
    },
  );
});
