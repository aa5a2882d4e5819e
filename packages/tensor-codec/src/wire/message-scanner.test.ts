// SPDX-License-Identifier: Apache-2.0
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { CreateWorldRequestSchema } from "@dm-env-rpc/protocol";
import { describe, expect, test } from "vitest";
import { type Bytes, delimited, group, tag, varint, varintField } from "../../testing/protobuf.ts";
import type { Limits } from "../errors/limits.ts";
import { createRequestCodec, createResponseCodec, decodeMessage } from "./index.ts";

const createWorld = 1;
const listProperty = 10;
const readProperty = 8;
const settings = 1;
const floats = 1;
const int64s = 5;
const strings = 10;
const protos = 11;
const shape = 15;

const times = (count: number, bytes: Bytes): number[] => new Array(count).fill(bytes).flat();
const setting = (tensor: Bytes, key: Bytes = delimited(1, [120])): number[] =>
  delimited(settings, [...key, ...delimited(2, tensor)]);
const create = (...fields: Bytes[]): number[] => delimited(createWorld, fields.flat());
const array = (payload: number, content: Bytes): number[] => setting(delimited(payload, content));

function readRequest(bytes: Bytes, limits: Limits = {}) {
  return createRequestCodec(limits).read(Uint8Array.from(bytes), 0, bytes.length);
}
const refused = (limit: string) => ({
  case: "malformed",
  value: expect.objectContaining({ reason: "limit", message: expect.stringContaining(limit) }),
});
const malformed = (text: string) => ({
  case: "malformed",
  value: expect.objectContaining({ reason: "malformed", message: expect.stringContaining(text) }),
});

describe("a message other than a step is held to", () => {
  test.each<[string, (count: number) => Bytes]>([
    ["protos", (n) => create(array(protos, times(n - 1, delimited(1, []))))],
    ["strings", (n) => create(array(strings, times(n - 1, delimited(1, []))))],
    ["settings", (n) => create(times(n, delimited(settings, [])))],
    ["settings in parts", (n) => times(n, create(delimited(settings, [])))],
    ["keys to list", (n) => delimited(listProperty, times(n, delimited(1, [])))],
    ["keys to read", (n) => delimited(readProperty, times(n, delimited(1, [])))],
  ])("maxEntries: %s", (_, bytes) => {
    expect(readRequest(bytes(9), { maxEntries: 8 })).toEqual(refused("at most 8 entries"));
    expect(readRequest(bytes(8), { maxEntries: 8 })).not.toHaveProperty("case", "malformed");
  });

  test.each<[string, (count: number) => Bytes]>([
    ["packed floats", (n) => create(array(floats, delimited(1, times(n, [0, 0, 0, 0]))))],
    ["floats one by one", (n) => create(array(floats, times(n, [...tag(1, 5), 0, 0, 0, 0])))],
    ["packed integers", (n) => create(array(int64s, delimited(1, times(n, varint(300)))))],
    ["integers one by one", (n) => create(array(int64s, times(n, varintField(1, 300))))],
    ["dimensions", (n) => create(setting(delimited(shape, times(n, [1]))))],
    [
      "numbers of two tensors",
      (n) =>
        create(
          setting(delimited(int64s, delimited(1, times(n - 60, [7])))),
          setting(delimited(floats, delimited(1, times(60, [0, 0, 0, 0]))), delimited(1, [121])),
        ),
    ],
    ["fields, repeated for nothing", (n) => create(setting(times(n, delimited(floats, []))))],
  ])("sixteen numbers or fields for each of maxEntries: %s", (_, bytes) => {
    expect(readRequest(bytes(129), { maxEntries: 8 })).toEqual(refused("at most 128 numbers"));
    expect(readRequest(bytes(110), { maxEntries: 8 })).toMatchObject({ case: "createWorld" });
  });

  test("a bound on unknown fields, those of groups included", () => {
    const million = new Array(2 ** 20 + 1).fill([...tag(15, 0), 0]).flat();
    expect(readRequest(million)).toEqual(refused("at most 1048576 unknown fields"));
    expect(readRequest(create(million))).toEqual(refused("unknown fields"));
    expect(readRequest(group(15, million))).toEqual(refused("unknown fields"));
  });

  test("the wire types of its fields", () => {
    expect(readRequest(create(varintField(settings, 2)))).toEqual(
      malformed("wire type 2 of field 1"),
    );
    expect(readRequest(create(array(int64s, [...tag(1, 5), 0, 0, 0, 0])))).toEqual(
      malformed("wire type 0 of field 1"),
    );
  });

  test("the same limits in a server's answer", () => {
    const codec = createResponseCodec({ maxEntries: 8 });
    const property = delimited(1, delimited(1, [112]));
    const read = (count: number) => {
      const bytes = Uint8Array.from(delimited(readProperty, times(count, property)));
      return codec.read(bytes, 0, bytes.length);
    };
    expect(read(9)).toEqual(refused("at most 8 entries"));
    expect(read(8)).toMatchObject({ case: "readProperty" });
  });

  test("counts that restart with each message", () => {
    const codec = createRequestCodec({ maxEntries: 8 });
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
