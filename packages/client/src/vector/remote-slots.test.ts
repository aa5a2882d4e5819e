// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type PackedTensor,
  pack,
  type Settings,
  type Specs,
  t,
  unpack,
} from "@dm-env-rpc/tensor-codec";
import { packTensor, unpackTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { rawServer } from "@dm-env-rpc/tests-processes";
import { describe, expect, test } from "vitest";
import { scriptedWorld, status } from "../testing/scripted-server.ts";
import { moves } from "../testing/slots.ts";
import { type RemoteSlotOptions, remoteSlots, vectorize } from "./index.ts";

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

describe("the slots of a server", () => {
  /** Returns the elements of each setting of the first join. */
  const joinSettings = (requests: readonly ProcessRequest[] = []) => {
    const [join] = requests.filter((request) => request.case === "joinWorld");
    return Object.fromEntries(
      Object.entries(join?.value.settings ?? {}).map(([name, packed]) => {
        const { data } = unpack(unpackTensor(packed) as PackedTensor);
        return [name, [...data]];
      }),
    );
  };
  const batch = { batch: [2], autoreset: ["next-step"] };
  /** The streams of two slots that were refused as one batch. */
  const refused = (...alone: string[]) => [
    [...alone.slice(0, -1), "leaveWorld", ...(alone.length > 2 ? ["destroyWorld"] : [])],
    alone,
    alone,
  ];

  test.each<[string, (slot: number) => Settings[string]]>([
    ["bigints", (slot) => BigInt(5 + slot)],
    ["integers", (slot) => 5 + slot],
    ["tensors", (slot) => pack(BigInt(5 + slot), { dtype: "uint64" })],
  ])("join one batch if their settings differ only in seeds that are %s", async (_, seedOf) => {
    const { server, streams, kinds } = await serving();
    await using one = server;
    await using two = (await serving()).server;
    const slots = remoteSlots([one.address, two.address], {
      world: "arena",
      joinSettings: ({ slot }) => ({ level: 7, seed: seedOf(slot) }),
    });
    await using vector = await vectorize(4, slots);
    await vector.reset();
    expect(kinds()).toEqual(refused("joinWorld", "step"));
    expect(joinSettings(streams[0])).toEqual({ ...batch, level: [7], seeds: [5n, 7n] });
  });

  test("are seeded by the vector, each with a different seed", async () => {
    const { server, streams } = await serving();
    await using _ = server;
    const slots = remoteSlots(server.address, {
      world: "arena",
      joinSettings: ({ seed }) => ({ seed: seed ?? 0 }),
    });
    await using vector = await vectorize(2, slots, { seed: 40n });
    expect([vector.size, joinSettings(streams[0])["seeds"]]).toEqual([2, [40n, 41n]]);
  });

  test("join one batch without seeds if none has a seed", async () => {
    const { server, streams } = await serving();
    await using _ = server;
    const slots = remoteSlots(server.address, { world: "arena" });
    await using vector = await vectorize(2, slots);
    expect([vector.size, joinSettings(streams[0])]).toEqual([2, batch]);
  });

  test("that would have a world of their own join a batch in one new world, which is destroyed if the batch is refused", async () => {
    const { server, kinds } = await serving();
    await using _ = server;
    const slots = remoteSlots(server.address, { createSettings: () => ({ level: 1 }) });
    await using vector = await vectorize(2, slots);
    await vector.reset();
    expect(kinds()).toEqual(refused("createWorld", "joinWorld", "step"));
  });

  test.each<[string, RemoteSlotOptions<Specs, Specs, never>]>([
    ["whose worlds differ", { createSettings: ({ slot }) => ({ level: slot }) }],
    ["whose worlds have seeds", { createSettings: () => ({ seed: 1 }) }],
    ["whose settings differ", { world: "arena", joinSettings: ({ slot }) => ({ team: slot }) }],
    [
      "of which some have seeds",
      {
        world: "arena",
        joinSettings: ({ slot }): Settings => (slot === 0 ? {} : { seed: 1 }),
      },
    ],
    ["whose seeds are no integers", { world: "arena", joinSettings: () => ({ seed: 0.5 }) }],
    ["with a reward of their own", { world: "arena", reward: () => 1 }],
    ["with a discount of their own", { world: "arena", discount: () => 1 }],
  ])("%s join alone", async (_, options) => {
    const { server, kinds } = await serving();
    await using _server = server;
    await using vector = await vectorize(2, remoteSlots(server.address, options));
    await vector.reset();
    const alone = options.world === undefined ? ["createWorld"] : [];
    expect(kinds()).toEqual(Array(2).fill([...alone, "joinWorld", "step"]));
  });

  test("are not joined one by one if the connection breaks while they join as a batch", async () => {
    let streams = 0;
    await using server = await rawServer(() => {
      streams++;
      return (_, http2) => {
        http2.destroy();
        return "silence";
      };
    });
    const slots = remoteSlots(server.address, { world: "arena" });
    await expect(vectorize(2, slots)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(streams).toBe(1);
  });
});
