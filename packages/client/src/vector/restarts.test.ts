// SPDX-License-Identifier: Apache-2.0
import { setTimeout as delay } from "node:timers/promises";
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { t, tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { type Script, status } from "../testing/scripted-server.ts";
import { flags, moves, scripted } from "../testing/slots.ts";
import { vectorize } from "./index.ts";

/** Scripts with long sequences; the server of slot 1 answers the first step after the reset with NOT_FOUND. */
const failing = (slot: number): Script => ({
  sequenceLength: 100,
  answer: (request, { requests }) =>
    slot === 1 && request.case === "step" && requests.length === 3
      ? status("NOT_FOUND", "the world is gone")
      : undefined,
});

/** A factory that cannot recreate slots. */
function onlyOnce(script: (slot: number) => Script = failing) {
  const made = scripted(script);
  const restarts: number[] = [];
  const factory: typeof made.factory = async (request) => {
    if (request.restarts === 0) {
      return await made.factory(request);
    }
    restarts.push(request.restarts);
    return await Promise.reject(`attempt ${request.restarts}`);
  };
  return { ...made, factory, restarts };
}

describe("a slot that has failed", () => {
  test.each([["never"], [{ initialMs: 0 }]] as const)(
    "leaves its world and closes its connection (restart: %j)",
    async (restart) => {
      const { factory, servers } = scripted(failing);
      await using vector = await vectorize(2, factory, { restart });
      await vector.reset();
      expect((await vector.step(moves(2))).failures[1]).toMatchObject({ code: "NOT_FOUND" });
      expect(await servers[1]?.closed).toBeUndefined();
      expect(servers[1]?.requests.at(-1)?.case).toBe("leaveWorld");
    },
  );

  test("does not keep recv waiting if restarts are off", async () => {
    await using vector = await vectorize(2, scripted(failing).factory, {
      batchSize: 1,
      restart: "never",
    });
    vector.sendReset([1]);
    await vector.recv();
    vector.send(moves(1), [1]);
    expect((await vector.recv()).failures).toMatchObject([{ code: "NOT_FOUND" }]);
    await expect(vector.recv()).rejects.toThrow(/nothing sent/);
  });

  test("keeps recv waiting while it is recreated, then delivers a first step", async () => {
    await using vector = await vectorize(2, scripted(failing).factory, {
      batchSize: 1,
      restart: { initialMs: 0 },
    });
    vector.sendReset([1]);
    await vector.recv();
    vector.send(moves(1), [1]);
    expect((await vector.recv()).failures).toMatchObject([{ code: "NOT_FOUND" }]);
    const { ids, first, failures } = await vector.recv();
    expect([ids, first, failures]).toEqual([[1], flags(1), [null]]);
    await expect(vector.recv()).rejects.toThrow(/nothing sent/);
  });

  test("stays failed after maxAttempts, with the error of the last attempt", async () => {
    const { factory, restarts } = onlyOnce();
    await using vector = await vectorize(2, factory, {
      batchSize: 1,
      restart: { maxAttempts: 2, initialMs: 0 },
    });
    vector.sendReset([1]);
    await vector.recv();
    vector.send(moves(1), [1]);
    expect((await vector.recv()).failures).toMatchObject([{ code: "NOT_FOUND" }]);
    expect((await vector.recv()).failures).toMatchObject([{ message: "attempt 2" }]);
    expect(restarts).toEqual([1, 2]);
    await expect(vector.recv()).rejects.toThrow(/nothing sent/);
  });

  test("is not recreated once it has left, and recv does not wait for it", async () => {
    const { factory, restarts } = onlyOnce();
    await using vector = await vectorize(2, factory, {
      batchSize: 1,
      restart: { maxAttempts: 9, initialMs: 1, random: () => 0 },
    });
    vector.sendReset([1]);
    await vector.recv();
    vector.send(moves(1), [1]);
    await vector.recv();
    const waiting = expect(vector.recv()).rejects.toThrow(/nothing sent/);
    await vector.leave([1]);
    await waiting;
    const before = restarts.length;
    await delay(20);
    expect(restarts.length - before).toBeLessThanOrEqual(1);
  });

  test("is not recreated if it leaves between two attempts", async () => {
    const { factory, restarts } = onlyOnce();
    let pause = (): void => {};
    const pausing = new Promise<void>((resolve) => {
      pause = resolve;
    });
    const random = (): number => {
      pause();
      return 0;
    };
    await using vector = await vectorize(2, factory, { restart: { initialMs: 20, random } });
    await vector.reset();
    await vector.step(moves(2));
    await pausing;
    await vector.leave([1]);
    // Longer than the pause.
    await delay(20);
    expect(restarts).toEqual([1]);
  });

  test("does not report the error of an attempt that was open when it left", async () => {
    const { factory } = scripted(failing);
    let refuse = (): void => {};
    let begin = (): void => {};
    const begun = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const again = new Promise<never>((_, reject) => {
      refuse = () => reject(new Error("no server there"));
    });
    await using vector = await vectorize(
      2,
      (request) => {
        if (request.restarts === 0) {
          return factory(request);
        }
        begin();
        return again;
      },
      { batchSize: 1, restart: { initialMs: 0 } },
    );
    vector.sendReset([1]);
    await vector.recv();
    vector.send(moves(1), [1]);
    await vector.recv();
    await begun;
    await vector.leave([1]);
    refuse();
    await new Promise((resolve) => setImmediate(resolve));
    await expect(vector.recv()).rejects.toThrow(/nothing sent/);
  });

  test("cancels its recreation through the signal of the factory when the vector closes", async () => {
    let signal: AbortSignal | undefined;
    const { factory } = scripted(failing);
    const vector = await vectorize(
      2,
      (request) => {
        if (request.restarts === 0) {
          return factory(request);
        }
        signal = request.signal;
        return new Promise<never>((_, reject) => {
          request.signal.addEventListener("abort", () => reject(request.signal.reason));
        });
      },
      { restart: { initialMs: 0 } },
    );
    await vector.reset();
    while (signal === undefined) {
      await vector.step(moves(2));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(signal.aborted).toBe(false);
    await vector.close();
    expect(signal.aborted).toBe(true);
  });

  const wrong = tensor("float64", [], new Float64Array([1]));

  test.each([
    ["has another dtype", [{ uid: 101, tensor: wrong }], "tick"],
    ["is missing", [], "tick"],
    ["was not requested", [{ uid: 999, tensor: wrong }], undefined],
  ])(
    "because one of its observations %s is reported as a failure, not as an invalid action",
    async (_what, observations, specName) => {
      const { factory } = scripted((slot) => ({
        sequenceLength: 100,
        answer: (request, { requests }) =>
          slot === 1 && request.case === "step" && requests.length === 3
            ? { case: "step", value: { state: EnvironmentStateType.RUNNING, observations } }
            : undefined,
      }));
      await using vector = await vectorize(2, factory, { restart: "never" });
      await vector.reset();
      const { valid, failures } = await vector.step(moves(2));
      expect(valid).toEqual(flags(1, 0));
      expect(failures).toMatchObject([null, { name: "TensorError", specName }]);
    },
  );

  test("because a reset changed its specs is reported as a failure", async () => {
    const specs = { tick: t.int32() };
    const { factory } = scripted((slot) => ({
      observations: (resets) => (slot === 1 && resets > 1 ? { ...specs, extra: t.int32() } : specs),
    }));
    await using vector = await vectorize(2, factory, { restart: "never" });
    const settings = () => ({ level: 1 });
    await vector.reset({ settings });
    const { valid, failures } = await vector.reset({ settings });
    expect(valid).toEqual(flags(1, 0));
    expect(failures).toMatchObject([null, { reason: "spec", specName: "extra" }]);
  });

  test("rejects the step if all other slots have left", async () => {
    await using vector = await vectorize(2, scripted(failing).factory, { restart: "never" });
    await vector.reset();
    await vector.leave([0]);
    await expect(vector.step(moves(2))).rejects.toMatchObject({ code: "NOT_FOUND" });
  });
});

describe("a slot that is recreated between two batches", () => {
  test.each([
    ["send", (vector: Awaited<ReturnType<typeof vectorize>>) => vector.send(moves(1), [0])],
    ["sendReset", (vector: Awaited<ReturnType<typeof vectorize>>) => vector.sendReset([0])],
  ] as const)("is in the next recv after a %s", async (_name, call) => {
    const { factory, servers } = scripted(failing);
    await using vector = await vectorize(2, factory, { restart: { initialMs: 0 } });
    await vector.reset();
    expect((await vector.step(moves(2))).failures[1]).toMatchObject({ code: "NOT_FOUND" });
    while (servers[2]?.requests.filter(({ case: kind }) => kind === "step").length !== 1) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    for (let turn = 0; turn < 20; turn++) {
      await new Promise((resolve) => setImmediate(resolve));
    }
    call(vector as never);
    const { ids, first } = await vector.recv();
    expect([...ids].sort()).toEqual([0, 1]);
    expect(first[ids.indexOf(1)]).toBe(1);
  });
});

describe("recv", () => {
  test("returns steps in the order of arrival, without those of slots that have left", async () => {
    const { factory } = scripted(() => ({ sequenceLength: 100 }));
    await using vector = await vectorize(3, factory);
    vector.sendReset([2, 1, 0]);
    expect((await vector.recv()).ids).toEqual([2, 1, 0]);
    await using single = await vectorize(3, factory, { batchSize: 1 });
    single.sendReset([2, 1, 0]);
    expect((await single.recv()).ids).toEqual([2]);
    await new Promise((resolve) => setImmediate(resolve));
    await single.leave([1]);
    expect((await single.recv()).ids).toEqual([0]);
    await expect(single.recv()).rejects.toThrow(/nothing sent/);
  });
});
