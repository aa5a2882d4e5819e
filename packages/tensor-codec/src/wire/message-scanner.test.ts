// SPDX-License-Identifier: Apache-2.0
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { CreateWorldRequestSchema } from "@dm-env-rpc/protocol";
import { describe, expect, test } from "vitest";
import { earlyRefusalOf } from "../../testing/arriving.ts";
import { type Bytes, delimited, group, tag, varint, varintField } from "../../testing/protobuf.ts";
import type { Limits } from "../errors/limits.ts";
import { createArrivingRequestCodec, createResponseCodec, decodeMessage } from "./index.ts";

const createWorld = 1;
const listProperty = 10;
const readProperty = 8;
const settings = 1;
const floats = 1;
const int8s = 3;
const int64s = 5;
const strings = 10;
const protos = 11;
const shape = 15;

const times = (count: number, bytes: Bytes): number[] => new Array(count).fill(bytes).flat();
const setting = (tensor: Bytes, key: Bytes = delimited(1, [120])): number[] =>
  delimited(settings, [...key, ...delimited(2, tensor)]);
const create = (...fields: Bytes[]): number[] => delimited(createWorld, fields.flat());
const array = (payload: number, content: Bytes): number[] => setting(delimited(payload, content));

/** Reads a request, which is refused while it arrives if it is refused as a whole. */
function readRequest(bytes: Bytes, limits: Limits = {}) {
  const codec = createArrivingRequestCodec(limits);
  const read = codec.read(Uint8Array.from(bytes), 0, bytes.length);
  const early = earlyRefusalOf(codec, Uint8Array.from(bytes));
  expect(early).toEqual(read.case === "malformed" ? read : undefined);
  return read;
}
const refused = (limit: string) => ({
  case: "malformed",
  value: expect.objectContaining({ reason: "limit", message: expect.stringContaining(limit) }),
});
const malformed = (text: string) => ({
  case: "malformed",
  value: expect.objectContaining({ reason: "malformed", message: expect.stringContaining(text) }),
});

describe("the limits of a message other than a step", () => {
  test.each<[string, (count: number) => Bytes]>([
    ["protos", (n) => create(array(protos, times(n - 1, delimited(1, []))))],
    ["strings", (n) => create(array(strings, times(n - 1, delimited(1, []))))],
    ["settings", (n) => create(times(n, delimited(settings, [])))],
    ["settings in parts", (n) => times(n, create(delimited(settings, [])))],
    ["keys to list", (n) => delimited(listProperty, times(n, delimited(1, [])))],
    ["keys to read", (n) => delimited(readProperty, times(n, delimited(1, [])))],
  ])("bound its entries: %s", (_, bytes) => {
    expect(readRequest(bytes(9), { maxEntries: 8 })).toEqual(refused("at most 8 entries"));
    expect(readRequest(bytes(8), { maxEntries: 8 })).not.toHaveProperty("case", "malformed");
  });

  // An empty tensor in a setting costs 4 for the request and 4 each for entry, key and tensor.
  test.each<[string, number, (count: number) => Bytes]>([
    ["packed floats", 54, (n) => create(array(floats, delimited(1, times(n, [0, 0, 0, 0]))))],
    ["floats one by one", 28, (n) => create(array(floats, times(n, [...tag(1, 5), 0, 0, 0, 0])))],
    ["packed integers", 54, (n) => create(array(int64s, delimited(1, times(n, varint(300)))))],
    ["integers one by one", 28, (n) => create(array(int64s, times(n, varintField(1, 300))))],
    ["chunks of one number", 14, (n) => create(array(int64s, times(n, delimited(1, [7]))))],
    ["empty chunks", 28, (n) => create(array(int64s, times(n, delimited(1, []))))],
    ["bytes", 7, (n) => create(array(int8s, times(n, delimited(1, [7]))))],
    ["strings", 7, (n) => create(array(strings, times(n, delimited(1, []))))],
    ["bytes of a string", 799, (n) => create(array(strings, delimited(1, times(n, [65]))))],
    ["bytes of a name", 1311, (n) => delimited(2, delimited(1, times(n, [65])))],
    ["bytes of a setting's name", 1055, (n) => create(setting([], delimited(1, times(n, [65]))))],
    ["protos", 7, (n) => create(array(protos, times(n, delimited(1, []))))],
    [
      "fields that the last one replaces",
      8,
      (n) => create(setting(times(n, delimited(floats, [])))),
    ],
    ["keys of one entry", 10, (n) => create(delimited(settings, times(n, delimited(1, [120]))))],
    ["settings", 11, (n) => create(times(n, delimited(settings, [])))],
    ["keys to read", 11, (n) => delimited(readProperty, times(n, delimited(1, [])))],
    ["requests that the last one replaces", 12, (n) => times(n, create())],
    ["unknown fields", 44, (n) => create(times(n, [...tag(15, 0), 0]))],
    ["unknown fields next to the request", 48, (n) => times(n, [...tag(15, 0), 0])],
    ["unknown fields in a group", 47, (n) => group(15, times(n - 1, [...tag(15, 0), 0]))],
  ])("bound its work: %s", (_, most, bytes) => {
    const limits = { maxMessageWork: 48 };
    expect(readRequest(bytes(most + 1), limits)).toEqual(refused("(limit: maxMessageWork)"));
    expect(readRequest(bytes(most), limits)).not.toHaveProperty("case", "malformed");
  });

  test.each<[string, (count: number) => Bytes]>([
    ["packed", (n) => create(setting(delimited(shape, times(n, [1]))))],
    ["one by one", (n) => create(setting(times(n, varintField(shape, 1))))],
    ["in chunks", (n) => create(setting(times(n / 5, delimited(shape, times(5, [1])))))],
  ])("bound the dimensions of a shape, 64 by default: %s", (_, bytes) => {
    expect(readRequest(bytes(65))).toEqual(refused("at most 64 dimensions in a shape"));
    expect(readRequest(bytes(60))).toMatchObject({ case: "createWorld" });
  });

  test("bound the dimensions of each shape, not of all shapes together", () => {
    const square = delimited(shape, [1, 1]);
    const bytes = create(setting(square), setting(square, delimited(1, [121])));
    expect(readRequest(bytes, { maxDimensions: 2 })).toMatchObject({ case: "createWorld" });
    expect(readRequest(bytes, { maxDimensions: 1 })).toEqual(refused("(limit: maxDimensions)"));
  });

  test("are not reached by a field of another wire type, which is malformed", () => {
    expect(readRequest(create(varintField(settings, 2)))).toEqual(
      malformed("wire type 2 of field 1"),
    );
    expect(readRequest(create(array(int64s, [...tag(1, 5), 0, 0, 0, 0])))).toEqual(
      malformed("wire type 0 of field 1"),
    );
  });

  test("apply to a server's response, too", () => {
    const codec = createResponseCodec({ maxEntries: 8 });
    const property = delimited(1, delimited(1, [112]));
    const read = (count: number) => {
      const bytes = Uint8Array.from(delimited(readProperty, times(count, property)));
      return codec.read(bytes, 0, bytes.length);
    };
    expect(read(9)).toEqual(refused("at most 8 entries"));
    expect(read(8)).toMatchObject({ case: "readProperty" });
  });

  test("count each message from zero", () => {
    const codec = createArrivingRequestCodec({ maxEntries: 8, maxMessageWork: 100 });
    const bytes = Uint8Array.from(create(array(floats, delimited(1, times(100, [0, 0, 0, 0])))));
    for (let i = 0; i < 9; i++) {
      expect(codec.read(bytes, 0, bytes.length)).toMatchObject({ case: "createWorld" });
    }
  });
});

test("a message in an Any is held to the same limits", () => {
  const bytes = Uint8Array.from(array(protos, times(8, delimited(1, []))));
  expect(() => decodeMessage(CreateWorldRequestSchema, bytes, { maxEntries: 8 })).toThrow(
    expect.objectContaining({ reason: "limit" }),
  );
  const { settings } = decodeMessage(CreateWorldRequestSchema, bytes, { maxEntries: 9 });
  expect(settings["x"]?.payload.case).toBe("protos");
});

test("messages in messages are read up to a depth of 100", () => {
  let nested: Bytes = [];
  for (let depth = 0; depth < 120; depth++) {
    nested = delimited(3, nested);
  }
  const bytes = Uint8Array.from(delimited(1, delimited(4, nested)));
  expect(() => decodeMessage(FileDescriptorSetSchema, bytes)).toThrow(/messages at most 100 deep/);
});
