// SPDX-License-Identifier: Apache-2.0
import { getEventListeners } from "node:events";
import { type Tensor, t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import type { DynamicAction, DynamicObservation } from "../environment/definition.ts";
import { status } from "../testing/scripted-server.ts";
import { flags, moves, scripted } from "../testing/slots.ts";
import { type SlotFactory, type VectorizeOptions, vectorize } from "./index.ts";

type Factory = SlotFactory<DynamicAction, DynamicObservation>;

const misuse = (message: RegExp) => ({
  code: "INVALID_ARGUMENT",
  origin: "client",
  message: expect.stringMatching(message),
});

describe("the slots of a vector", () => {
  test("are given by a number and a factory, or by a factory for each", async () => {
    const [one, two] = [scripted(), scripted()];
    await using vector = await vectorize([one.factory, two.factory]);
    expect([vector.size, vector.batchSize, vector.autoresetMode]).toEqual([2, 2, "next-step"]);
    await vector.reset();
    expect(one.requests).toMatchObject([{ slot: 0, buffers: "fresh", seed: undefined }]);
    expect(two.requests).toMatchObject([{ slot: 1, buffers: "fresh", seed: undefined }]);
    await using seeded = await vectorize([scripted().factory], { batchSize: 1, buffers: "reuse" });
    expect(seeded.batchSize).toBe(1);
  });

  test.each([
    ["the number 0", () => vectorize(0, scripted().factory)],
    ["an empty list of factories", () => vectorize([])],
    ["a number without a factory", () => vectorize(...([2] as unknown as [Factory[]]))],
  ] as const)("cannot be given by %s", async (_what, make) => {
    await expect(make()).rejects.toMatchObject(
      misuse(/^expected at least one slot, received none/),
    );
  });

  test.each([0, -1, 1.5, 3])(
    "are refused with a batchSize that is not from 1 to their number: 2 slots, batchSize %d",
    async (batchSize) => {
      await expect(vectorize(2, scripted().factory, { batchSize })).rejects.toMatchObject(
        misuse(new RegExp(`^expected a batchSize from 1 to 2, received ${batchSize}`)),
      );
    },
  );

  test("must have the same nested observations, and none missing", async () => {
    const differing = (observations: object) =>
      scripted((slot) =>
        slot === 1 ? { observations: { ...observations }, observe: () => 0 } : {},
      ).factory;
    const like = { tick: t.int32(), board: t.uint8([2]), reward: t.float32() };
    await expect(
      vectorize(2, differing({ ...like, me: { hp: t.float32() } })),
    ).rejects.toMatchObject({ specName: "observation me.hp", received: "float32 []" });
    await expect(vectorize(2, differing(like))).rejects.toMatchObject({
      specName: "observation me.hp",
      received: "nothing of that name",
    });
  });
});

describe("the signal of a vector", () => {
  const stuck: Factory = ({ signal }) =>
    new Promise((_, reject) => {
      const onAbort = (): void => reject(signal.reason);
      signal.addEventListener("abort", onAbort);
      if (signal.aborted) {
        onAbort();
      }
    });

  test("cancels the creation of the slots with its reason", async () => {
    const controller = new AbortController();
    const making = vectorize(2, stuck, { signal: controller.signal });
    controller.abort(new Error("no time"));
    await expect(making).rejects.toThrow("no time");
    await expect(vectorize(2, stuck, { signal: controller.signal })).rejects.toThrow("no time");
  });

  test("is ignored after the slots have been created", async () => {
    const { signal } = new AbortController();
    await using vector = await vectorize(1, scripted().factory, { signal });
    expect(getEventListeners(signal, "abort")).toEqual([]);
    await vector.reset();
  });
});

describe("the calls of a vector", () => {
  const refusal = (message: RegExp) => ({
    code: "FAILED_PRECONDITION",
    origin: "client",
    message: expect.stringMatching(message),
  });

  test("are refused after close, or while another call is open", async () => {
    const { factory, servers } = scripted();
    const vector = await vectorize(2, factory, { batchSize: 1 });
    await vector.reset();
    const stepping = vector.step(moves(2));
    expect(() => vector.sendReset()).toThrow(/another is open/);
    expect(() => vector.send(moves(2))).toThrow(/another is open/);
    await stepping;
    vector.send(moves(2));
    const first = vector.recv();
    await expect(vector.recv()).rejects.toMatchObject(refusal(/another is open/));
    await first;
    await vector.recv();
    await vector[Symbol.asyncDispose]();
    await Promise.all(servers.map(({ closed }) => closed));
    for (const call of [() => vector.step(moves(2)), () => vector.reset(), () => vector.recv()]) {
      await expect(call()).rejects.toMatchObject(
        refusal(/^cannot use a vector that is closed; create another/),
      );
    }
    await vector.leave([0]);
  });

  test("send needs an action for each id", async () => {
    await using vector = await vectorize(2, scripted().factory);
    vector.sendReset();
    await vector.recv();
    const send = (): void => vector.send(moves(2), [1]);
    expect(send).toThrow(expect.objectContaining(misuse(/as many actions as ids, 1, received 2/)));
    vector.send(moves(2));
    expect((await vector.recv()).ids).toHaveLength(2);
  });

  test("an open recv includes the steps of a later send", async () => {
    await using vector = await vectorize(2, scripted().factory);
    vector.sendReset();
    await vector.recv();
    vector.send(moves(1), [0]);
    const batch = vector.recv();
    vector.send(moves(1), [1]);
    expect([...(await batch).ids].sort()).toEqual([0, 1]);
  });

  test("an invalid action rejects the step, also with a single slot, and the vector continues", async () => {
    await using vector = await vectorize(1, scripted().factory);
    await vector.reset();
    for (const misfit of [{ jump: 1 }, { move: 99 }]) {
      await expect(vector.step([misfit])).rejects.toMatchObject({
        name: "TensorError",
        specName: Object.keys(misfit)[0],
      });
    }
    expect((await vector.step(moves(1))).failures).toEqual([null]);
  });
});

describe("the rows of a batch", () => {
  const stacked = { label: t.string([2]), me: { data: t.float64() }, tick: t.int32() };
  const observe = (name: string, tick: number): unknown =>
    ({ label: [`at ${tick}`, "of two"], "me.data": tick / 2, tick })[name];

  test.each(["fresh", "reuse"] as const)(
    "of slots without an observation are zeros, in %s arrays",
    async (buffers) => {
      const { factory } = scripted((slot) => ({
        observations: stacked,
        observe,
        sequenceLength: 100,
        answer: (request, { requests }) =>
          slot === 0 && request.case === "step" && requests.length > 3
            ? status("NOT_FOUND", "the world is gone")
            : undefined,
      }));
      await using vector = await vectorize(2, factory, { buffers, restart: "never" });
      await vector.reset();
      const before = await vector.step(moves(2));
      expect((before.observation["label"] as Tensor).data).toEqual([
        ...["at 1", "of two", "at 1", "of two"],
      ]);
      const { observation, valid } = await vector.step(moves(2));
      expect(valid).toEqual(flags(0, 1));
      expect(observation).toEqual({
        label: { dtype: "string", shape: [2, 2], data: ["", "", "at 2", "of two"] },
        me: { data: tensor("float64", [2], new Float64Array([0, 1])) },
        tick: tensor("int32", [2], new Int32Array([0, 2])),
      });
    },
  );

  test("of an ended sequence have its discount, and statistics of that sequence only", async () => {
    await using vector = await vectorize(1, scripted(() => ({ sequenceLength: 2 })).factory);
    await vector.reset();
    for (let sequence = 0; sequence < 2; sequence++) {
      expect((await vector.step(moves(1))).discount).toEqual(new Float64Array([1]));
      const { discount, finalInfo } = await vector.step(moves(1));
      expect(discount).toEqual(new Float64Array([0]));
      expect(finalInfo).toEqual([{ state: "terminated", steps: 2, return: 2 }]);
      await vector.step(moves(1));
    }
  });

  test("in mode same-step have a copy of the last observation, including nested values", async () => {
    const { factory } = scripted(() => ({ observations: stacked, observe, sequenceLength: 1 }));
    const options: VectorizeOptions = { autoresetMode: "same-step", buffers: "reuse" };
    await using vector = await vectorize(1, factory, options);
    await vector.reset();
    const { finalObservation } = await vector.step(moves(1));
    expect(finalObservation).toEqual([
      {
        label: { dtype: "string", shape: [2], data: ["at 1", "of two"] },
        me: { data: 0.5 },
        tick: 1,
      },
    ]);
  });
});

test("reset() passes the settings of each slot to its environment", async () => {
  const { factory, servers } = scripted();
  await using vector = await vectorize(2, factory);
  await vector.reset({ settings: (slot) => ({ level: slot }) });
  const settings = servers.map(({ requests }) =>
    requests.map((request) => (request.case === "reset" ? request.value.settings : undefined)),
  );
  expect(settings[1]?.find((each) => each !== undefined)).toHaveProperty("level");
  await vector.reset();
  expect(servers[0]?.requests.filter((request) => request.case === "reset")).toHaveLength(2);
});

describe("autoreset disabled", () => {
  test("refuses to step slots that were never reset, and ignores slots that have left", async () => {
    const { factory } = scripted((slot) => ({ sequenceLength: slot === 0 ? 1 : 9 }));
    await using vector = await vectorize(2, factory, { autoresetMode: "disabled" });
    await vector.reset({ mask: [true, false] });
    await expect(vector.step(moves(2))).rejects.toThrow(/sequence has ended: 1; reset them/);
    await vector.reset({ mask: [false, true] });
    expect((await vector.step(moves(2))).terminated).toEqual(flags(1, 0));
    await vector.leave([0]);
    expect((await vector.step(moves(2))).valid).toEqual(flags(0, 1));
  });
});
