// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { arriveIn, earlyRefusalOf } from "../../testing/arriving.ts";
import { golden } from "../../testing/golden.ts";
import { mutate, noise, seeded } from "../../testing/mutate.ts";
import { type Bytes, delimited, tag, varint, varintField } from "../../testing/protobuf.ts";
import { createArrivingRequestCodec } from "./index.ts";
import type { Malformed } from "./messages.ts";

const chunkBytes = 16 * 1024;
const large = 8 * 1024 * 1024;

const floats = 1;
const int32s = 4;
const int64s = 5;
const uint8s = 6;
const strings = 10;
const protos = 11;
const shape = 15;

/** Wraps content in fields, the innermost first. */
function within(content: Uint8Array, ...fields: readonly number[]): Uint8Array {
  let bytes = content;
  for (const field of fields) {
    bytes = Buffer.concat([Buffer.from([...tag(field, 2), ...varint(bytes.length)]), bytes]);
  }
  return bytes;
}

const times = (count: number, bytes: Bytes): Uint8Array =>
  Buffer.alloc(count * bytes.length, Uint8Array.from(bytes));
const many = (bytes: Bytes): Uint8Array => times(Math.floor(large / bytes.length), bytes);

/** An action with a tensor, as a step. */
const inStep = (content: Uint8Array, ...fields: number[]) => within(content, ...fields, 2, 1, 3);
/** A setting with a tensor, as a create. */
const inCreate = (content: Uint8Array, ...fields: number[]) => within(content, ...fields, 2, 1, 1);

test.each<[string, () => Uint8Array]>([
  ["a setting of unpacked integers", () => inCreate(many(varintField(1, 1)), int32s)],
  ["a setting of packed integers", () => inCreate(many([1]), 1, int32s)],
  ["a setting of packed floats", () => inCreate(many([0]), 1, floats)],
  ["a setting of chunks", () => inCreate(many(delimited(1, [1])), int64s)],
  ["a setting of empty strings", () => inCreate(many(delimited(1, [])), strings)],
  ["a setting of empty messages", () => inCreate(many(delimited(1, [])), protos)],
  ["a setting of many dimensions", () => inCreate(many([1]), shape)],
  ["a setting of unpacked dimensions", () => inCreate(many(varintField(shape, 1)))],
  ["a setting whose payload is given often", () => inCreate(many(delimited(int32s, [])))],
  ["settings without names", () => within(many(delimited(1, [])), 1)],
  ["settings with names", () => within(many(delimited(1, delimited(1, [120]))), 1)],
  ["a property written with unpacked integers", () => within(many([8, 1]), int32s, 2, 1, 9)],
  ["a list of properties", () => within(many(delimited(1, [])), 10)],
  ["a long name of a world", () => within(times(9_000_000, [120]), 1, 2)],
  ["requests in one message", () => many(delimited(1, []))],
  ["unknown fields", () => many(delimited(20, []))],
  ["nested groups", () => many([0xa3])],
  ["bytes that are not protobuf", () => many([0xff])],
  ["a step of unpacked integers", () => inStep(many(varintField(1, 1)), int32s)],
  ["a step of packed integers", () => inStep(many([1]), 1, int32s)],
  ["a step of chunks", () => inStep(many(delimited(1, [1])), int32s)],
  [
    "a step of two large chunks",
    () => inStep(Buffer.concat([within(many([1]), 1), within(many([1]), 1)]), int64s),
  ],
  ["a step of too many bytes", () => inStep(times(2 ** 24 + 1, [1]), 1, uint8s)],
  ["a step of too many floats", () => inStep(times(2 ** 24 + 1, [0, 0, 0, 0]), 1, floats)],
  ["a step of floats that are cut", () => inStep(times(large + 1, [0]), 1, floats)],
  ["a step of empty strings", () => inStep(many(delimited(1, [])), strings)],
  ["a step of a string that is too long", () => inStep(times(2 ** 24 + 1, [65]), 1, strings)],
  ["a step of empty messages", () => inStep(many(delimited(1, [])), protos)],
  ["a step of many dimensions", () => inStep(many([1]), shape)],
  ["a step of empty actions", () => within(many(delimited(1, [])), 3)],
  ["a step of one action, repeated", () => within(many(delimited(1, [8, 1, 18, 0])), 3)],
  ["a step for many observations", () => within(many([1]), 2, 3)],
  ["a step for unpacked observations", () => within(many(varintField(2, 1)), 3)],
  ["steps in one message", () => many(delimited(3, []))],
])("%s: refused after few chunks, with the error of the whole message", (_, message) => {
  const bytes = message();
  const codec = createArrivingRequestCodec();
  const { refusal, arrived } = arriveIn(chunkBytes, codec, bytes);
  expect(arrived).toBeLessThanOrEqual(1024 * 1024);
  expect(refusal?.value.message).toBe(
    (codec.read(bytes, 0, bytes.length) as Malformed).value.message,
  );
});

describe("a large message that is legal arrives whole", () => {
  test.each<[string, () => Uint8Array]>([
    ["a picture", () => inStep(times(2 ** 24, [200]), 1, uint8s)],
    ["floats", () => inStep(times(2 ** 22, [0, 0, 0, 0]), 1, floats)],
    ["integers", () => inStep(times(2_000_000, [1]), 1, int32s)],
    ["a setting of bytes", () => inCreate(times(2 ** 24, [200]), 1, uint8s)],
    ["an extension", () => within(within(times(2 ** 24, [0xff]), 2), 15)],
    ["many actions", () => within(times(20_000, delimited(1, [8, 1, 18, 4, 34, 2, 10, 0])), 3)],
    [
      "payloads that others replace",
      () =>
        inStep(
          Buffer.concat([
            within(times(100_000, [8, 1]), int32s),
            within(times(100_000, [0]), 1, uint8s),
          ]),
        ),
    ],
  ])("%s", (_, message) => {
    const bytes = message();
    const codec = createArrivingRequestCodec();
    expect(codec.read(bytes, 0, bytes.length)).not.toHaveProperty("case", "malformed");
    expect(arriveIn(chunkBytes, codec, bytes).refusal).toBeUndefined();
  });
});

test("no message that can be read is refused while it arrives, whatever its chunks", () => {
  const limits = {
    maxMessageWork: 60,
    maxElements: 20,
    maxEntries: 4,
    maxDimensions: 4,
    maxStringBytes: 10,
  };
  const corpus = golden.filter(({ kind }) => kind === "request").map(({ bytes }) => bytes);
  const tensors = golden
    .filter(({ kind }) => kind === "tensor")
    .map(({ bytes }) => Uint8Array.from(delimited(3, delimited(1, delimited(2, [...bytes])))));
  const seeds = [...corpus, ...tensors];
  const random = seeded(20261123);
  let early = 0;
  let readable = 0;
  for (let i = 0; i < 20_000; i++) {
    const seed = seeds[Math.floor(random() * seeds.length)] as Uint8Array;
    const bytes = i % 8 === 0 ? noise(random) : mutate(seed, random);
    // A codec that has learned a layout does not count the fields of further steps.
    const codec = createArrivingRequestCodec(limits);
    const refusal = earlyRefusalOf(codec, bytes);
    const read = codec.read(bytes, 0, bytes.length);
    if (refusal !== undefined) {
      early += 1;
      expect([i, read.case]).toEqual([i, "malformed"]);
    } else if (read.case !== "malformed") {
      readable += 1;
    }
  }
  expect(early).toBeGreaterThan(1000);
  expect(readable).toBeGreaterThan(1000);
});
