// SPDX-License-Identifier: Apache-2.0
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";
import { Code, createClient } from "@connectrpc/connect";
import { compressionGzip, createGrpcTransport } from "@connectrpc/connect-node";
import { RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { envelope, prefixBytes } from "@dm-env-rpc/transport/internal";
import { describe, expect, it } from "vitest";
import { refused } from "../../../testing/callers.ts";
import { rawCall } from "../../../testing/raw-calls.ts";
import { type MatchmakerServer, serveMatchmaker } from "../../serve-matchmaker.ts";

const renew = "/matchmaker.v1.RegistryService/RenewServer";
const settings = { maxWorldsPerServer: 1 };
const most = 65_536 + 32;

const tooManyEntries = new RegExp(
  `^too many entries in a request: expected at most ${most}, received more; .*\\(limit: maxWorldsPerServer\\)$`,
);
const tooManyWorlds =
  /^too many worlds: expected at most 1 of one server, received more; .*\(limit: maxWorldsPerServer\)$/;

/** Bytes that cannot be decoded as protobuf. */
const malformed = Buffer.alloc(16, 0xff);

/** Encodes a field that is the same `count` times, without content. */
function repeated(field: number, type: WireType, count: number): Buffer {
  const one = new BinaryWriter().tag(field, type).uint32(0).finish();
  return Buffer.alloc(one.length * count, one);
}

/** Encodes a world of a report. */
function world(fields: Uint8Array): Uint8Array {
  return new BinaryWriter().tag(3, WireType.LengthDelimited).bytes(fields).finish();
}

const tickets = (count: number) => repeated(5, WireType.LengthDelimited, count);

/** Returns the status message with which a matchmaker answers messages by gRPC. */
async function messageOf(served: MatchmakerServer, ...messages: Uint8Array[]): Promise<string> {
  const body = Buffer.concat(messages.map((message) => envelope(message)));
  return (await rawCall(served, { path: renew, body })).message;
}

describe("a request of a server with too many entries is refused before it is decoded", () => {
  it.each<[string, readonly Uint8Array[], RegExp]>([
    ["worlds", [repeated(3, WireType.LengthDelimited, 2)], tooManyWorlds],
    ["tickets of a world", [world(tickets(most))], tooManyEntries],
    ["unknown fields", [repeated(99, WireType.Varint, most + 1)], tooManyEntries],
    ["values of one field", [repeated(2, WireType.Varint, most + 1)], tooManyEntries],
    [
      "entries inside a number, by a wire type that the decoder ignores",
      [
        new BinaryWriter()
          .tag(2, WireType.LengthDelimited)
          .uint32(4 * most)
          .finish(),
        repeated(99, WireType.Varint, most),
      ],
      tooManyEntries,
    ],
  ])("%s", async (_, parts, text) => {
    await using served = await serveMatchmaker({ settings });
    const message = Buffer.concat([...parts, malformed]);
    expect(await messageOf(served, message)).toMatch(text);
    expect([...served.refusals]).toEqual([["maxWorldsPerServer", 1]]);
  });

  const entries = {
    protobuf: Buffer.concat([world(tickets(most)), malformed]),
    JSON: Buffer.from(`{"worlds": [${"{},".repeat(most)}`),
  };

  it.each([
    ["application/proto", entries.protobuf],
    ["Application/Proto", entries.protobuf],
    ["application/json", entries.JSON],
    ["application/JSON; charset=utf-8", entries.JSON],
  ])("as %s over Connect", async (type, body) => {
    await using served = await serveMatchmaker({ settings });
    const headers = { "content-type": type };
    const response = await fetch(`${served.url}${renew}`, { method: "POST", headers, body });
    expect(await response.json()).toMatchObject({
      code: "resource_exhausted",
      message: expect.stringMatching(tooManyEntries),
    });
  });

  it.each([
    ["application/GRPC", entries.protobuf],
    ["application/grpc+json", entries.JSON],
    ["application/grpc+JSON", entries.JSON],
  ])("as %s over gRPC", async (type, message) => {
    await using served = await serveMatchmaker({ settings });
    const call = { path: renew, headers: { "content-type": type }, body: envelope(message) };
    expect(await rawCall(served, call)).toMatchObject({
      status: "8",
      message: expect.stringMatching(tooManyEntries),
    });
  });
});

it.each([
  ["two", Buffer.concat([envelope(Buffer.alloc(0)), envelope(malformed)])],
  ["800,000 empty", Buffer.alloc(800_000 * prefixBytes)],
])("a request of a server with %s messages is refused without decoding them", async (_, body) => {
  await using served = await serveMatchmaker({ settings });
  expect(await rawCall(served, { path: renew, body })).toMatchObject({
    status: "12",
    message:
      "the request has too many messages: expected one message, received more; make one call for each message",
  });
});

it("a request of a server may have as many entries as the limit allows", async () => {
  await using served = await serveMatchmaker({ settings });
  expect(await messageOf(served, world(tickets(most - 1)))).toMatch(/unknown server ""/);
});

it("a request of a server that is too large, malformed or compressed is refused", async () => {
  await using served = await serveMatchmaker({ settings });
  expect(await messageOf(served, malformed)).toMatch(/expected a request in protobuf/);
  const large = new BinaryWriter().tag(1, WireType.LengthDelimited).bytes(Buffer.alloc(5e6));
  expect(await messageOf(served, large.finish())).toMatch(
    /larger than its limit: expected at most 4194304 bytes/,
  );
  expect([...served.refusals]).toEqual([["RESOURCE_EXHAUSTED", 1]]);
  const transport = createGrpcTransport({
    baseUrl: served.url,
    sendCompression: compressionGzip,
    compressMinBytes: 0,
  });
  await expect(
    createClient(RegistryService, transport).renewServer({ serverId: "a" }),
  ).rejects.toSatisfy(refused(Code.Unimplemented, /compression/));
});
