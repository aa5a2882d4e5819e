// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { type Script, status } from "../testing/scripted-server.ts";
import { batching, flags, moves } from "../testing/slots.ts";
import { type BatchSlots, vectorize } from "./index.ts";

const long = { sequenceLength: 100 };
const atOnce = { restart: { initialMs: 0 } } as const;
const gone = new DmEnvRpcError("UNAVAILABLE", "no server there");

/** A batch whose server can be switched off: it then refuses steps and joins. */
function failing(refuse: (request: BatchSlots) => boolean = () => false) {
  const server = { isDown: false };
  const script = (): Script => ({
    ...long,
    answer: ({ case: kind }) =>
      server.isDown && kind === "step" ? status("NOT_FOUND", "the world is gone") : undefined,
  });
  const made = batching(1, script, (request) => {
    if (server.isDown) {
      throw gone;
    }
    return refuse(request);
  });
  return { ...made, server };
}

describe("a batch of all slots", () => {
  test("is joined with the options of the vector", async () => {
    const { slots, joined } = batching(1, () => long);
    await using plain = await vectorize(3, slots);
    const options = { autoresetMode: "same-step", buffers: "reuse", seed: 7n } as const;
    await using other = await vectorize(2, slots, options);
    expect(joined).toMatchObject([
      {
        ...{ server: 0, slots: [0, 1, 2], autoresetMode: "next-step", buffers: "fresh" },
        seed: undefined,
      },
      { server: 0, slots: [0, 1], ...options },
    ]);
    expect([plain.size, plain.batchSize, plain.autoresetMode]).toEqual([3, 3, "next-step"]);
    expect([other.size, other.batchSize, other.autoresetMode]).toEqual([2, 2, "same-step"]);
  });

  test("supports step, send and recv", async () => {
    const { slots } = batching(1, () => long);
    await using vector = await vectorize(2, slots);
    expect((await vector.reset()).first).toEqual(flags(1, 1));
    expect((await vector.step(moves(2))).reward).toEqual(new Float64Array([1, 2]));
    vector.send(moves(2));
    expect((await vector.recv()).observation).toMatchObject({
      tick: { data: new Int32Array([2, 2]) },
    });
    vector.sendReset();
    expect((await vector.recv()).first).toEqual(flags(1, 1));
  });

  test("is canceled by the vector's signal while it joins", async () => {
    const { slots } = batching(1);
    const stopped = new AbortController();
    const stuck = Object.assign((...[request]: Parameters<typeof slots>) => slots(request), {
      servers: 1,
      joinBatch: ({ signal }: BatchSlots) =>
        new Promise<undefined>((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
        }),
    });
    const making = vectorize(2, stuck, { signal: stopped.signal });
    stopped.abort(gone);
    await expect(making).rejects.toBe(gone);
  });
});

describe("a batch whose world is gone", () => {
  test("is reported in every row, and the next call returns first steps", async () => {
    for (const next of ["step", "reset", "recv"] as const) {
      const { slots, server, joined } = failing();
      await using vector = await vectorize(2, slots, { ...atOnce, seed: 3n });
      await vector.reset();
      server.isDown = true;
      const lost = await vector.step(moves(2));
      server.isDown = false;
      const nulls = [null, null];
      const zeros = flags(0, 0);
      expect(lost).toEqual({
        ids: [0, 1],
        observation: {
          tick: { dtype: "int32", shape: [2], data: new Int32Array(2) },
          board: { dtype: "uint8", shape: [2, 2], data: new Uint8Array(4) },
          me: { hp: { dtype: "float64", shape: [2], data: new Float64Array(2) } },
        },
        timeSteps: nulls,
        reward: new Float64Array(2),
        discount: new Float64Array([1, 1]),
        ...{ terminated: zeros, truncated: flags(1, 1), first: zeros, valid: zeros },
        ...{ finalObservation: nulls, finalInfo: nulls, refusals: nulls },
        failures: [0, 1].map(() => expect.objectContaining({ code: "NOT_FOUND" })),
      });
      vector.send(moves(2));
      const back = await (next === "step" ? vector.step(moves(2)) : vector[next]());
      expect([back.first, back.valid, back.failures]).toEqual([flags(1, 1), flags(1, 1), nulls]);
      expect((await vector.step(moves(2))).first).toEqual(zeros);
      expect(joined.map((batch) => [batch.slots, batch.seed])).toEqual(Array(2).fill([[0, 1], 3n]));
    }
  });

  test("stays failed if restarts are off", async () => {
    const { slots, server, joined } = failing();
    await using vector = await vectorize(2, slots, { restart: "never" });
    await vector.reset();
    server.isDown = true;
    const { failures } = await vector.step(moves(2));
    const why = { code: "NOT_FOUND" };
    expect(failures[0]).toMatchObject(why);
    server.isDown = false;
    await expect(vector.step(moves(2))).rejects.toBe(failures[0]);
    await expect(vector.reset()).rejects.toBe(failures[0]);
    expect(() => vector.send(moves(2))).toThrow(failures[0] as Error);
    expect(() => vector.sendReset()).toThrow(failures[0] as Error);
    expect(joined).toHaveLength(1);
  });

  test.each<[string, boolean, object]>([
    ["no server answers", true, gone],
    ["its server no longer supports batches", false, { code: "UNIMPLEMENTED", origin: "client" }],
  ])("stays failed if %s at every attempt", async (_why, isDown, error) => {
    let count = 0;
    const { slots, server, joined } = failing(() => count++ > 0);
    await using vector = await vectorize(2, slots, { restart: { initialMs: 0, maxAttempts: 3 } });
    await vector.reset();
    server.isDown = true;
    await vector.step(moves(2));
    server.isDown = isDown;
    await expect(vector.step(moves(2))).rejects.toMatchObject(error);
    await expect(vector.step(moves(2))).rejects.toMatchObject(error);
    expect(joined).toHaveLength(4);
  });

  test("keeps a call waiting until it is recreated, up to the call's timeout", async () => {
    const { slots, server } = failing();
    await using vector = await vectorize(2, slots, {
      restart: { initialMs: 0, maxMs: 1, maxAttempts: 100_000 },
    });
    await vector.reset();
    server.isDown = true;
    await vector.step(moves(2));
    await expect(vector.step(moves(2), { timeoutMs: 1 })).rejects.toThrow(
      /recreating the batch timed out after 1 ms/,
    );
    const signal = AbortSignal.abort(new Error("no time"));
    await expect(vector.recv({ signal })).rejects.toThrow(/no time/);
    const waiting = vector.step(moves(2));
    server.isDown = false;
    expect((await waiting).first).toEqual(flags(1, 1));
  });

  test("is not recreated once the vector is closed", async () => {
    const { slots, server, joined } = failing();
    const restart = { initialMs: 0, maxMs: 1, maxAttempts: 100_000 };
    const vector = await vectorize(2, slots, { restart });
    await vector.reset();
    server.isDown = true;
    await vector.step(moves(2));
    const waiting = vector.step(moves(2)).catch((error: unknown) => error);
    await vector.close();
    expect(await waiting).toBeInstanceOf(Error);
    const count = joined.length;
    await new Promise((resolve) => setImmediate(resolve));
    expect(joined).toHaveLength(count);
    await expect(vector.step(moves(2))).rejects.toThrow();
  });
});

describe("a call of a batch rejects", () => {
  test("if it fails before any step was answered", async () => {
    const { slots, server, joined } = failing();
    await using vector = await vectorize(2, slots, atOnce);
    server.isDown = true;
    await expect(vector.reset()).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(joined).toHaveLength(1);
  });

  test("if its error does not mean that the world is gone", async () => {
    const { slots, joined } = batching(1, () => long);
    await using vector = await vectorize(2, slots, atOnce);
    await vector.reset();
    await expect(vector.step([{ move: 1 }, { move: 99 }])).rejects.toMatchObject({
      specName: "move",
    });
    expect((await vector.step(moves(2))).valid).toEqual(flags(1, 1));
    expect(joined).toHaveLength(1);
  });
});

test("the slots of a batch leave, and its connections are closed", async () => {
  const { slots, servers } = batching(1, () => long);
  const vector = await vectorize(2, slots);
  await vector.reset();
  await vector.leave([]);
  expect((await vector.step(moves(2))).valid).toEqual(flags(1, 1));
  await vector.leave([0, 1], { timeoutMs: 10_000 });
  expect(await Promise.all(servers.map(({ closed }) => closed))).toEqual([undefined, undefined]);
  await expect(vector.step(moves(2))).rejects.toThrow(/closed/);
  await vector.close();
});
