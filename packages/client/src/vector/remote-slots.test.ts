// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, pack, t } from "@dm-env-rpc/tensor-codec";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { rawServer } from "@dm-env-rpc/tests-processes";
import { expect, test } from "vitest";
import { scriptedWorld, status } from "../testing/scripted-server.ts";
import { moves } from "../testing/slots.ts";
import { remoteSlots, vectorize } from "./index.ts";

const script = { observations: { tick: t.int32(), board: t.uint8([4]) }, sequenceLength: 9 };

/** Starts a server; returns the requests of each stream, in the order of the streams. */
async function serving(refuse: ProcessRequest["case"] = undefined) {
  const streams: ProcessRequest[][] = [];
  const ended: boolean[] = [];
  const server = await rawServer(() => {
    const requests: ProcessRequest[] = [];
    const stream = streams.push(requests) - 1;
    const answer = scriptedWorld(script);
    return (request, http2) => {
      if (requests.length === 0) {
        http2.once("close", () => {
          ended[stream] = true;
        });
      }
      requests.push(request);
      return request.case === refuse ? status("NOT_FOUND", "no such world") : answer(request);
    };
  });
  const kinds = () => streams.map((requests) => requests.map((request) => request.case));
  return { server, streams, kinds, ended };
}

test("each slot creates its own world with its settings, and destroys the world when it is closed", async () => {
  const { server, streams, kinds } = await serving();
  await using _ = server;
  const vector = await vectorize(
    2,
    remoteSlots(server.address, {
      createSettings: ({ slot }) => ({ level: slot }),
      joinSettings: ({ slot }) => ({ team: `team ${slot}` }),
      observations: ["tick"],
    }),
  );
  const { observation } = await vector.reset();
  expect(Object.keys(observation)).toEqual(["tick"]);
  await vector.close();
  expect(kinds()).toEqual(
    Array(2).fill(["createWorld", "joinWorld", "step", "leaveWorld", "destroyWorld"]),
  );
  const settings = streams.flatMap((requests) =>
    requests.flatMap((request) =>
      request.case === "createWorld" || request.case === "joinWorld"
        ? [request.value.settings]
        : [],
    ),
  );
  const packed = (value: number | string) => packTensor(pack(value));
  expect(settings).toEqual(
    expect.arrayContaining([
      ...[{ level: packed(0) }, { team: packed("team 0") }],
      ...[{ level: packed(1) }, { team: packed("team 1") }],
    ]),
  );
});

test("slots of an existing world join it, and do not destroy it", async () => {
  const { server, kinds } = await serving();
  await using _ = server;
  const slots = remoteSlots([server.address], { world: "arena" });
  const vector = await vectorize(2, slots, { batch: false });
  await vector.reset();
  await vector.close();
  expect(kinds()).toEqual(Array(2).fill(["joinWorld", "step", "leaveWorld"]));
});

test("each slot has its own stream if the server ignores the setting batch", async () => {
  const { server, kinds } = await serving();
  await using _ = server;
  await using vector = await vectorize(2, remoteSlots(server.address, { world: "arena" }));
  await vector.reset();
  expect(kinds()).toEqual([
    ["joinWorld", "leaveWorld"],
    ["joinWorld", "step"],
    ["joinWorld", "step"],
  ]);
});

test("slots are assigned to the addresses round-robin; an empty list of addresses is refused", async () => {
  const [one, two] = [await serving(), await serving()];
  await using _one = one.server;
  await using _two = two.server;
  await using vector = await vectorize(
    3,
    remoteSlots([one.server.address, two.server.address], { world: "arena" }),
    { batch: false },
  );
  expect([vector.size, one.streams.length, two.streams.length]).toEqual([3, 2, 1]);
  expect(() => remoteSlots([])).toThrow(DmEnvRpcError);
  expect(() => remoteSlots([])).toThrow(/at least one address/);
});

test("a slot that cannot join closes its connection", async () => {
  const { server, ended } = await serving("joinWorld");
  await using _ = server;
  const making = vectorize(1, remoteSlots(server.address, { world: "nowhere" }));
  await expect(making).rejects.toMatchObject({ code: "NOT_FOUND" });
  while (ended[0] !== true) {
    await new Promise((resolve) => setImmediate(resolve));
  }
});

test("connections have the given options, and the vector's signal cancels them", async () => {
  const { server } = await serving();
  await using _ = server;
  const options = { world: "arena", connect: { metadata: { "no spaces": "allowed" } } };
  await expect(vectorize(1, remoteSlots(server.address, options))).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
  });
  const signal = AbortSignal.abort(new Error("no time"));
  await expect(vectorize(1, remoteSlots(server.address), { signal })).rejects.toMatchObject({
    code: "CANCELLED",
    cause: { message: "no time" },
  });
});

test.each([
  ["fresh", 3],
  ["reuse", 1],
] as const)("buffers: %s: three steps use %i buffers", async (buffers, count) => {
  const { server } = await serving();
  await using _ = server;
  const large = { observations: { board: t.uint8([200_000]) }, sequenceLength: 9 };
  await using big = await rawServer(() => scriptedWorld(large));
  await using vector = await vectorize(1, remoteSlots(big.address), { buffers, stack: false });
  await vector.reset();
  const memory = new Set<unknown>();
  for (let step = 0; step < 3; step++) {
    const { timeSteps } = await vector.step(moves(1));
    const board = timeSteps[0]?.observation["board"] as { readonly data: Uint8Array };
    memory.add(board.data.buffer);
  }
  expect(memory.size).toBe(count);
});
