// SPDX-License-Identifier: Apache-2.0
import { setTimeout as delay } from "node:timers/promises";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { type Script, status } from "../testing/scripted-server.ts";
import { flags, moves, scripted } from "../testing/slots.ts";
import { vectorize } from "./index.ts";

describe("a slot that fails", () => {
  const dying = (slot: number): Script => ({
    sequenceLength: 100,
    answer: (request, server) => {
      if (slot === 1 && request.case === "step" && server.requests.length === 4) {
        server.stream.abort(new DmEnvRpcError("UNKNOWN", "crash"));
        return "silence";
      }
      return undefined;
    },
  });

  test("is reported and recreated, and the others never wait for it", async () => {
    const { factory, requests } = scripted(dying);
    await using vector = await vectorize(3, factory, { restart: { initialMs: 0 } });
    await vector.reset();
    await vector.step(moves(3));
    const failed = await vector.step(moves(3));
    expect(failed.failures[1]).toBeInstanceOf(DmEnvRpcError);
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

  test("counts its sequence from the beginning once it is recreated", async () => {
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
    while (last.finalInfo[1] === null || last.finalInfo[1] === undefined) {
      last = await mended.step(moves(2));
    }
    expect(last.finalInfo[1]).toEqual({ state: "terminated", steps: 2, return: 4 });
  });

  test("is delivered by recv once recreated, so that a plain send and recv loop continues", async () => {
    const { factory } = scripted(dying);
    await using vector = await vectorize(2, factory, { batchSize: 1, restart: { initialMs: 0 } });
    vector.sendReset();
    let failures = 0;
    let returns = 0;
    for (let i = 0; i < 60; i++) {
      const batch = await vector.recv({ timeoutMs: 60_000 });
      if (batch.failures[0] !== null) {
        failures++;
      }
      if (batch.ids[0] === 1 && batch.first[0] === 1) {
        returns++;
      }
      vector.send(moves(1), batch.ids);
    }
    expect(failures).toBeGreaterThan(1);
    expect(returns).toBeGreaterThan(1);
  });

  test("stays invalid if restarts are off, or if all restarts fail", async () => {
    for (const restart of ["never", { maxAttempts: 2, initialMs: 0 }] as const) {
      const { factory } = scripted(dying);
      const once: typeof factory = async (request) => {
        if (request.restarts > 0) {
          throw new DmEnvRpcError("UNKNOWN", "no server there");
        }
        return await factory(request);
      };
      await using vector = await vectorize(2, once, { restart });
      await vector.reset();
      const why = restart === "never" ? /crash/ : /no server there/;
      expect((await vector.step(moves(2))).failures[1]).toBeNull();
      expect((await vector.step(moves(2))).failures[1]).toBeInstanceOf(DmEnvRpcError);
      let failure: Error | null = null;
      while (!why.test(failure?.message ?? "")) {
        const { valid, failures } = await vector.step(moves(2));
        expect(valid).toEqual(flags(1, 0));
        failure = failures[1] ?? null;
      }
      expect((await vector.step(moves(2))).failures[1]).toBe(failure);
    }
  });

  test("is reported as failed if its world is gone; the step rejects if all worlds are gone", async () => {
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

describe("behaviour 68: a slot whose action the server refuses", () => {
  /** Refuses two steps of slot 1: steps with an action, or the first steps of later sequences. */
  function refusing(what: "moves" | "beginnings", sequenceLength = 100) {
    let left = 2;
    return scripted((slot) => ({
      sequenceLength,
      answer: (request, { requests }) => {
        const isMove = request.case === "step" && request.value.actions.length > 0;
        const isBeginning = request.case === "step" && !isMove && requests.length > 2;
        if (slot !== 1 || left === 0 || !(what === "moves" ? isMove : isBeginning)) {
          return undefined;
        }
        left -= 1;
        return status("INVALID_ARGUMENT", `the field is taken, ${left} left`);
      },
    }));
  }

  test("is reported in refusals, continues its sequence, and is not recreated", async () => {
    const { factory, requests } = refusing("moves");
    await using vector = await vectorize(3, factory);
    await vector.reset();
    for (const [left, others] of [
      [1, 1],
      [0, 2],
    ]) {
      const refused = await vector.step(moves(3));
      expect(refused.refusals[0]).toBeNull();
      expect(refused.refusals[1]).toMatchObject({
        code: "INVALID_ARGUMENT",
        message: `the field is taken, ${left} left`,
      });
      expect(refused.failures).toEqual([null, null, null]);
      expect([refused.valid, refused.truncated]).toEqual([flags(1, 0, 1), flags(0, 0, 0)]);
      expect(refused.observation).toMatchObject({
        tick: { data: new Int32Array([others as number, 0, others as number]) },
      });
    }
    const next = await vector.step(moves(3));
    expect(next.refusals).toEqual([null, null, null]);
    expect([next.valid, next.first]).toEqual([flags(1, 1, 1), flags(0, 0, 0)]);
    expect(next.observation).toMatchObject({ tick: { data: new Int32Array([3, 1, 3]) } });
    expect(requests).toHaveLength(3);
  });

  test("is reported by recv, and accepts another action", async () => {
    const { factory } = refusing("moves");
    await using vector = await vectorize(2, factory, { batchSize: 1 });
    vector.sendReset([1]);
    await vector.recv();
    for (const isRefused of [true, true, false]) {
      vector.send(moves(1), [1]);
      const { ids, refusals, valid } = await vector.recv();
      expect([ids, refusals[0] !== null, valid]).toEqual([
        [1],
        isRefused,
        flags(isRefused ? 0 : 1),
      ]);
    }
  });

  test("reports the end of its sequence in mode same-step even if the server refuses to begin the next", async () => {
    const { factory } = refusing("beginnings", 1);
    await using vector = await vectorize(2, factory, { autoresetMode: "same-step" });
    await vector.reset();
    const ended = await vector.step(moves(2));
    expect([ended.valid, ended.terminated, ended.reward]).toEqual([
      flags(1, 0),
      flags(1, 1),
      new Float64Array([1, 2]),
    ]);
    expect(ended.finalInfo[1]).toEqual({ state: "terminated", steps: 1, return: 2 });
    expect(ended.refusals[1]?.message).toBe("the field is taken, 1 left");
    const still = await vector.step(moves(2));
    expect([still.refusals[1]?.message, still.finalInfo[1], still.reward[1]]).toEqual([
      "the field is taken, 0 left",
      null,
      0,
    ]);
    const begun = await vector.step(moves(2));
    expect([begun.first[1], begun.refusals[1]]).toEqual([1, null]);
  });

  test("is recreated if the error means that its world is gone", async () => {
    for (const code of ["INTERNAL", "NOT_FOUND", "UNAVAILABLE", "DEADLINE_EXCEEDED"] as const) {
      const { factory, requests } = scripted((slot) => ({
        sequenceLength: 100,
        answer: (request, server) =>
          slot === 1 && request.case === "step" && server.requests.length > 2
            ? status(code, "the world is gone")
            : undefined,
      }));
      await using vector = await vectorize(2, factory, { restart: { initialMs: 0 } });
      await vector.reset();
      const { failures, refusals } = await vector.step(moves(2));
      expect(failures[1]).toMatchObject({ code });
      expect(refusals).toEqual([null, null]);
      let back = await vector.step(moves(2));
      while (back.valid[1] === 0) {
        back = await vector.step(moves(2));
      }
      expect([back.first[1], requests.length]).toEqual([1, 3]);
    }
  });
});

describe("a canceled call", () => {
  /** Calls again until no slot is stepping. */
  async function whenReady<T>(call: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await call();
      } catch (error) {
        if (!(error instanceof Error && /slots are stepping/.test(error.message))) {
          throw error;
        }
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
  }

  test("does not affect the next step, which returns the results of its own actions", async () => {
    const { factory } = scripted(() => ({ sequenceLength: 100 }));
    await using vector = await vectorize(2, factory);
    await vector.reset();
    const signal = AbortSignal.abort(new Error("no time"));
    await expect(vector.step(moves(2), { signal })).rejects.toThrow(/canceled: no time/);
    const next = await whenReady(() => vector.step(moves(2)));
    expect(next.ids).toEqual([0, 1]);
    expect(next.observation).toMatchObject({ tick: { data: new Int32Array([2, 2]) } });
    const after = await vector.step(moves(2));
    expect(after.observation).toMatchObject({ tick: { data: new Int32Array([3, 3]) } });
  });

  test("does not affect the next reset, even if one of its actions did not fit", async () => {
    const { factory } = scripted(() => ({ sequenceLength: 100 }));
    await using vector = await vectorize(2, factory);
    await vector.reset();
    const signal = AbortSignal.abort(new Error("no time"));
    const misfit = [{ move: 1 }, { move: 99 }];
    await expect(vector.step(misfit, { signal })).rejects.toThrow(/canceled: no time/);
    const { first, valid } = await whenReady(() => vector.reset());
    expect([first, valid]).toEqual([flags(1, 1), flags(1, 1)]);
  });
});

test("close() resolves after timeoutMs in total if servers never answer", async () => {
  const { factory } = scripted(() => ({
    deaf: true,
    answer: ({ case: kind }, { requests }) =>
      kind === "leaveWorld" || requests.length > 2 ? "silence" : undefined,
  }));
  const vector = await vectorize(2, factory);
  await vector.reset();
  const open = expect(vector.step(moves(2))).rejects.toThrow(/a vector that is closed/);
  // 50 short delays instead of one of 1.5 s, so that a stall of the machine does not let them all elapse at once.
  const late = async (): Promise<string> => {
    for (let turn = 0; turn < 50; turn++) {
      await delay(30);
    }
    return "late";
  };
  const closing = vector.close({ timeoutMs: 30 });
  expect(await Promise.race([closing, late()])).toBeUndefined();
  await open;
});

test("vectorize cancels the creation of the other slots if one slot cannot be created", async () => {
  const { factory, servers } = scripted((slot) => ({
    answer: ({ case: kind }) => {
      if (kind !== "joinWorld") {
        return undefined;
      }
      return slot === 2 ? status("RESOURCE_EXHAUSTED", "the world is full") : undefined;
    },
  }));
  const stuck: typeof factory = ({ signal }) =>
    new Promise((_, reject) => {
      signal.addEventListener("abort", () => reject(signal.reason));
    });
  const making = vectorize(3, (request) => (request.slot === 1 ? stuck : factory)(request));
  await expect(making).rejects.toMatchObject({ code: "RESOURCE_EXHAUSTED" });
  expect(await servers[0]?.closed).toBeUndefined();
});
