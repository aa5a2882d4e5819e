// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { listen } from "@dm-env-rpc/transport";
import { expect, test } from "vitest";
import { connect } from "../connection/connect.ts";
import { scriptedServer } from "../testing/scripted-server.ts";
import { remoteSlots, vectorize } from "../vector/index.ts";
import type { DynamicObservation } from "./definition.ts";
import type { Environment, JoinOptions } from "./environment.ts";
import type { TimeStep } from "./time-step.ts";

/** Size of an observation that arrives in several chunks, so that its message is assembled. */
const size = 300_000;

const script = {
  observations: { screen: t.uint8([size]), tick: t.int32() },
  sequenceLength: 100,
  observe: (name: string, tick: number) =>
    name === "tick" ? tick : new Uint8Array(size).fill(tick),
};
/** UID of the second observation: the UIDs of the scripted server's observations begin at 101. */
const uidOfTick = 102;

/** Starts a server of large screens, each filled with its tick. */
async function serving() {
  const listener = await listen({ onStream: (stream) => void scriptedServer(stream, script) });
  const address = `127.0.0.1:${listener.port}`;
  return {
    address,
    join: async (options: JoinOptions): Promise<Environment> =>
      await (await connect(address)).join("world", options),
    [Symbol.asyncDispose]: () => listener.close({ graceMs: 200 }),
  };
}

function screenOf({ observation }: TimeStep<{ readonly [name: string]: unknown }>): Uint8Array {
  return (observation["screen"] as { data: Uint8Array }).data;
}

const isFilled = (screen: Uint8Array, tick: number): boolean =>
  screen.every((byte) => byte === tick);

test.each([
  ["view", 4],
  ["reuse", 1],
  ["copy", 4],
] as const)("tensors: %s: four steps in a row use %i buffers", async (tensors, count) => {
  await using server = await serving();
  const environment = await server.join({ tensors });
  await using _ = environment.connection;
  await environment.reset();
  const buffers = new Set<ArrayBufferLike>();
  for (let tick = 1; tick <= 4; tick++) {
    const screen = screenOf(await environment.step({ move: 1 }));
    expect(isFilled(screen, tick)).toBe(true);
    buffers.add(screen.buffer);
  }
  expect(buffers.size).toBe(count);
});

test("tensors: reuse: overlapping steps do not share memory", async () => {
  await using server = await serving();
  const environment = await server.join({ tensors: "reuse" });
  await using _ = environment.connection;
  await environment.reset();
  let after: Promise<TimeStep<DynamicObservation>> | undefined;
  const stop = environment.connection.observe({
    onRequest: () => {},
    onResponse: () => {
      stop();
      after = environment.step({ move: 1 });
    },
  });
  const steps = await environment.stepMany(Array.from({ length: 3 }, () => ({ move: 1 })));
  if (after !== undefined) {
    steps.push(await after);
  }
  expect(steps.map((step, i) => isFilled(screenOf(step), i + 1))).toEqual([true, true, true, true]);
});

test("a vector that reuses its buffers reuses the memory of its time steps", async () => {
  await using server = await serving();
  const options = { connect: {}, world: "world" };
  for (const buffers of ["reuse", "fresh"] as const) {
    await using vector = await vectorize(2, remoteSlots(server.address, options), { buffers });
    await vector.reset();
    const seen = [];
    for (let tick = 1; tick <= 3; tick++) {
      const batch = await vector.step([{ move: 1 }, { move: 1 }]);
      for (const step of batch.timeSteps) {
        if (step === null) {
          throw new Error("expected a step");
        }
        const screen = screenOf(step);
        expect(isFilled(screen, tick)).toBe(true);
        seen.push(screen.buffer);
      }
    }
    expect(new Set(seen).size).toBe(buffers === "reuse" ? 2 : 6);
  }
});

test("connection.send returns steps whose scalars are copies", async () => {
  await using server = await serving();
  await using connection = await connect(server.address);
  await connection.join("world");
  const answers = [];
  for (let tick = 0; tick < 4; tick++) {
    const value = { actions: [], requestedObservations: [uidOfTick] };
    answers.push(await connection.send({ case: "step", value }));
  }
  const ticks = answers.map(({ value }) => value.observations[0]?.tensor.data[0]);
  expect(ticks).toEqual([0, 1, 2, 3]);
});

test("a small integer action is packed once, any other value each time", async () => {
  await using server = await serving();
  const environment = await server.join({ observations: ["tick"] });
  await using connection = environment.connection;
  await environment.reset();
  const packed: unknown[] = [];
  connection.observe({
    onRequest: (request) => {
      if (request.case === "step") {
        packed.push(request.value.actions[0]?.tensor);
      }
    },
    onResponse: () => {},
  });
  for (const move of [1, 2, 1, Int32Array.of(1)]) {
    await environment.step({ move });
  }
  expect(packed).toMatchObject([1, 2, 1, 1].map((move) => ({ data: Int32Array.of(move) })));
  expect(packed[2]).toBe(packed[0]);
  expect(packed[3]).not.toBe(packed[0]);
});
