// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { tensor } from "@dm-env-rpc/tensor-codec";
import { describe, expect, test } from "vitest";
import { moves, scripted } from "../testing/slots.ts";
import { vectorize } from "./index.ts";

describe("send and recv", () => {
  test("deliver the slots that are ready first", async () => {
    const held: (() => void)[] = [];
    const { factory } = scripted((slot) => ({
      sequenceLength: 100,
      answer: (request, server) => {
        if (slot !== 0 || request.case !== "step" || server.requests.length !== 3) {
          return undefined;
        }
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
    // Slot 0 does not answer its second step, so the other two slots form every batch.
    const seen = new Set<number>();
    for (let i = 0; i < 10; i++) {
      const { ids } = await vector.recv({ timeoutMs: 60_000 });
      vector.send(moves(ids.length), ids);
      if (i > 3) {
        for (const id of ids) {
          seen.add(id);
        }
      }
    }
    expect(seen).toEqual(new Set([1, 2]));
    for (const release of held) {
      release();
    }
    let last: readonly number[] = [];
    while (!last.includes(0)) {
      last = (await vector.recv()).ids;
      if (!last.includes(0)) {
        vector.send(moves(last.length), last);
      }
    }
  });

  test("a recv with nothing sent rejects instead of waiting forever", async () => {
    await using vector = await vectorize(2, scripted().factory);
    vector.sendReset([1]);
    expect((await vector.recv()).ids).toEqual([1]);
    await expect(vector.recv()).rejects.toThrow(/nothing sent/);
  });
});

test("a recv that resolves immediately does not block the next one", async () => {
  await using vector = await vectorize(2, scripted().factory, { batchSize: 1 });
  vector.sendReset();
  const { ids } = await vector.recv();
  await new Promise((resolve) => setImmediate(resolve));
  vector.send(moves(1), ids);
  const both = await Promise.all([vector.recv(), vector.recv({ timeoutMs: 60_000 })]);
  expect(both.map((batch) => batch.ids.length)).toEqual([1, 1]);
});

test("a recv that is canceled before it starts leaves the steps that have arrived to the next recv", async () => {
  await using vector = await vectorize(2, scripted().factory, { batchSize: 1 });
  vector.sendReset();
  const first = await vector.recv();
  await new Promise((resolve) => setImmediate(resolve));
  const signal = AbortSignal.abort(new Error("no time"));
  await expect(vector.recv({ signal })).rejects.toThrow(
    /waiting for 1 of 2 slots was canceled: no time/,
  );
  const second = await vector.recv();
  expect([...first.ids, ...second.ids].sort()).toEqual([0, 1]);
});

test("a recv that is canceled just before its last step arrives leaves all its steps to the next recv", async () => {
  const canceling = new AbortController();
  const { factory } = scripted();
  await using vector = await vectorize(2, async (slot) => {
    const environment = await factory(slot);
    const reset = environment.reset.bind(environment);
    const resetThenAbort: typeof reset = (options) => {
      const first = reset(options);
      if (slot.slot === 1) {
        void first.then(() => canceling.abort(new Error("no time")));
      }
      return first;
    };
    return Object.assign(environment, { reset: resetThenAbort });
  });
  vector.sendReset();
  await expect(vector.recv({ signal: canceling.signal })).rejects.toThrow(/canceled: no time/);
  expect((await vector.recv()).ids).toHaveLength(2);
});
