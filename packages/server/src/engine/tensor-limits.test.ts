// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { anyPack, StructSchema, ValueSchema } from "@bufbuild/protobuf/wkt";
import { ListPropertyRequestSchema, ReadPropertyRequestSchema } from "@dm-env-rpc/protocol";
import { type PackedTensor, pack, t } from "@dm-env-rpc/tensor-codec";
import { packTensor } from "@dm-env-rpc/tensor-codec/proto";
import type { UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import { describe, expect, it } from "vitest";
import { networkPeer, serving } from "../../testing/network.ts";
import type { Peer } from "../../testing/peer.ts";
import { tally } from "../../testing/tally.ts";
import { extension } from "../definition/extension.ts";
import { property } from "../definition/property.ts";
import { defineWorld } from "../definition/world.ts";
import { serve } from "../host/serve.ts";
import { unpackLimited } from "./tensor-limits.ts";

/** A world whose actions can have any size. */
const wide = defineWorld({
  name: "wide",
  actions: { row: t.int32([-1]), text: t.string(), any: t.proto([-1]) },
  observations: {},
  create: () => ({ step() {}, observe: {} }),
});

/** Result of an action: "code: message", or the kind of the response. */
async function answerTo(peer: Peer, name: string, tensor: UidTensor["tensor"]): Promise<string> {
  const uid = peer.actions?.byName.get(name)?.uid ?? 0;
  const value = { actions: [{ uid, tensor }], requestedObservations: [] };
  const answer = await peer.send({ case: "step", value });
  return answer.case === "error"
    ? `${answer.value.code}: ${answer.value.message}`
    : `${answer.case}`;
}

it("limits of tensors apply to actions, before and after broadcasting, and the stream continues", async () => {
  await using server = await serving({
    worlds: [wide],
    limits: { maxElements: 8, maxStringBytes: 16, maxEntries: 4 },
  });
  await using peer = await networkPeer(server);
  await peer.join(await peer.createWorld());
  await peer.step();
  const any = { typeUrl: "", value: new Uint8Array(0), $typeName: "google.protobuf.Any" } as const;
  expect(await answerTo(peer, "row", pack(new Int32Array(9)))).toMatch(
    /^8: .*\(limit: maxElements\)/,
  );
  expect(
    await answerTo(peer, "row", { dtype: "int32", shape: [9], data: Int32Array.of(1) }),
  ).toMatch(/^8: .*"row".*\(limit: maxElements\)/);
  expect(await answerTo(peer, "text", pack("a".repeat(17)))).toMatch(
    /^8: .*\(limit: maxStringBytes\)/,
  );
  expect(
    await answerTo(peer, "any", { dtype: "proto", shape: [5], data: new Array(5).fill(any) }),
  ).toMatch(/^8: .*\(limit: maxEntries\)/);
  expect(await answerTo(peer, "row", pack(new Int32Array(8)))).toBe("step");
});

describe("limits of tensors outside steps", () => {
  const limits = { maxElements: 8, maxStringBytes: 4, maxEntries: 4, maxDimensions: 8 };
  /** The error of a tensor, if it exceeds a limit. */
  const refusalOf = (tensor: PackedTensor): string | undefined => {
    try {
      expect(unpackLimited(packTensor(tensor), limits, "map")).toEqual(tensor);
      return undefined;
    } catch (error) {
      expect(error).toMatchObject({ reason: "limit", specName: "map" });
      return String(error);
    }
  };
  const int32 = (shape: readonly number[], count: number): PackedTensor => ({
    dtype: "int32",
    shape,
    data: new Int32Array(count).fill(123_456),
  });

  it.each<[string, readonly number[], number]>([
    ["as many as are allowed", [2, 4], 8],
    ["none, because one dimension is 0", [0, 9], 0],
    ["those of a variable dimension", [-1], 8],
  ])("accept elements: %s", (_what, shape, count) => {
    expect(refusalOf(int32(shape, count))).toBeUndefined();
  });

  it.each<[string, readonly number[], number, number]>([
    ["one too many", [3, 3], 9, 9],
    ["one too many in a variable dimension", [-1], 9, 9],
    ["too many after broadcasting", [5, 2], 1, 10],
    ["too many beside a variable dimension", [-1, 9], 1, 9],
  ])("refuse elements: %s", (_what, shape, count, received) => {
    expect(refusalOf(int32(shape, count))).toMatch(
      new RegExp(
        `"map": expected at most 8 elements \\(limit: maxElements\\), received ${received}`,
      ),
    );
  });

  it("accept as many dimensions as are allowed, and refuse one more", () => {
    const ones = new Array<number>(8).fill(1);
    expect(refusalOf(int32(ones, 1))).toBeUndefined();
    expect(refusalOf(int32([...ones, 1], 1))).toMatch(
      /"map": expected at most 8 dimensions \(limit: maxDimensions\), received 9/,
    );
  });

  it("count the bytes of a string, not its characters", () => {
    const text = (...data: string[]): PackedTensor => ({
      dtype: "string",
      shape: [data.length],
      data,
    });
    expect(refusalOf(text("a", "abcd", "éé"))).toBeUndefined();
    for (const long of ["abcde", "ééé"]) {
      expect(refusalOf(text("a", long))).toMatch(
        /"map": expected at most 4 bytes in a string \(limit: maxStringBytes\), received [56]/,
      );
    }
  });
});

it("maxEntries: bounds settings and keys, and the stream continues", async () => {
  await using server = await serve({ worlds: [tally()], limits: { maxEntries: 4 } });
  await using peer = await networkPeer(server);
  const codeOf = async (...[request]: Parameters<Peer["send"]>): Promise<number> => {
    const answer = await peer.send(request);
    return answer.case === "error" ? answer.value.code : 0;
  };
  const settings = { length: 1, cut: true, start: 1, min_agents: 1, max_agents: 1 };
  await expect(peer.createWorld(settings)).rejects.toThrow(/^8: .*at most 4 entries.*maxEntries/);
  const keys = new Array(5).fill("");
  const list = (count: number) => create(ListPropertyRequestSchema, { keys: keys.slice(0, count) });
  expect(await codeOf({ case: "listProperty", value: list(5) })).toBe(8);
  expect(await codeOf({ case: "listProperty", value: list(4) })).toBe(0);
  await peer.createWorld({ length: 1 });
});

it("maxMessageWork and maxDimensions: bound a request, and the stream continues", async () => {
  const limits = { maxMessageWork: 40, maxDimensions: 2 };
  await using server = await serving({ worlds: [wide], limits });
  await using peer = await networkPeer(server);
  const settings = { a: 1, b: 1, c: 1 };
  await expect(peer.createWorld(settings)).rejects.toThrow(
    /^8: .*at most 40 units.*maxMessageWork/,
  );
  await peer.join(await peer.createWorld());
  await peer.step();
  expect(await answerTo(peer, "row", pack(new Int32Array(1000)))).toMatch(
    /^8: .*\(limit: maxMessageWork\)/,
  );
  const cube = { dtype: "int32", shape: [1, 1, 1], data: Int32Array.of(1) } as const;
  expect(await answerTo(peer, "row", cube)).toMatch(/^8: .*at most 2 dimensions/);
  expect(await answerTo(peer, "row", pack(new Int32Array(8)))).toBe("step");
});

it("maxEntries: bounds an extension's message by default", async () => {
  const echo = extension(StructSchema, StructSchema, (message) => message);
  await using server = await serve({ worlds: [tally()], extensions: [echo] });
  await using peer = await networkPeer(server);
  const struct = create(StructSchema);
  for (let i = 0; i <= 65_536; i++) {
    struct.fields[`${i}`] = create(ValueSchema);
  }
  const answer = await peer.send({ case: "extension", value: anyPack(StructSchema, struct) });
  expect(answer).toMatchObject({ case: "error", value: { code: 8 } });
});

it("a key that one request contains many times is read once", async () => {
  let reads = 0;
  const count = property(t.int32(), { read: () => ++reads });
  await using server = await serve({ worlds: [tally()], properties: { count } });
  await using peer = await networkPeer(server);
  const keys = new Array(10_000).fill("count");
  const read = await peer.send({
    case: "readProperty",
    value: create(ReadPropertyRequestSchema, { keys }),
  });
  expect(read.case === "readProperty" && Object.keys(read.value.properties)).toEqual(["count"]);
  expect(reads).toBe(1);
});
