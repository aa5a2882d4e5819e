// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { fuzzOne } from "../../testing/fuzz.ts";
import { golden } from "../../testing/golden.ts";
import { mutate, noise, seeded } from "../../testing/mutate.ts";
import { delimited, tag, varint, varintField } from "../../testing/protobuf.ts";
import { encode } from "../../testing/steps.ts";
import { pack } from "../packing/pack.ts";
import { unpack } from "../packing/unpack.ts";
import { createRequestCodec, decodeTensor } from "./index.ts";
import type { ProcessRequest } from "./messages.ts";

const floats = 1;
const int32s = 4;
const int64s = 5;
const uint8s = 6;
const bools = 9;
const strings = 10;
const protos = 11;

const decode = (bytes: readonly number[], options = {}) =>
  decodeTensor(Uint8Array.from(bytes), options);
const refusal = (reason: string, text: string) =>
  expect.objectContaining({ reason, message: expect.stringContaining(text) });

test("behaviour 9: every truncation of a message is malformed or a shorter message", () => {
  const codec = createRequestCodec();
  const message: ProcessRequest = {
    case: "step",
    value: {
      actions: [
        { uid: 1, tensor: pack([[1, 2.5]], { dtype: "float32" }) },
        { uid: 2n ** 60n, tensor: pack(["ab", "c"]) },
        { uid: 3, tensor: pack([-1n, 1n << 40n]) },
      ],
      requestedObservations: [1, 300, 2],
    },
  };
  const bytes = encode(codec, message);
  for (let end = 1; end < bytes.length; end++) {
    expect(codec.read(bytes, 0, end)).toMatchObject({
      case: "malformed",
      value: { name: "TensorError", reason: "malformed" },
    });
  }
});

test.each([
  ["a length beyond the end", [10, 5, 10], "5 bytes at byte 1"],
  ["a length of 2^31", [...tag(floats, 2), ...varint(2n ** 31n)], "2147483648 bytes at byte 1"],
  ["a length of 2^32 - 1", [...tag(floats, 2), ...varint(2n ** 32n - 1n)], "4294967295 bytes"],
  ["a length of 33 bits", [...tag(floats, 2), ...varint(2n ** 32n)], "at most 32 bits"],
  ["a length that never ends", [...tag(floats, 2), 0x80, 0x80], "a length at byte 1"],
  [
    "a length of six bytes",
    [...tag(floats, 2), 0x80, 0x80, 0x80, 0x80, 0x80, 0],
    "at most 32 bits",
  ],
  ["field 0", [2, 0], "a field number from 1 at byte 0"],
  ["wire type 6", [14, 0], "a wire type from 0 to 5 at byte 0"],
  ["wire type 7", [0xff, 0x01], "a wire type"],
  ["a tag of 33 bits", [...varint(2n ** 32n + 10n), 0], "a tag of at most 32 bits"],
  ["floats of three bytes", delimited(floats, delimited(1, [1, 2, 3])), "a multiple of 4 bytes"],
  [
    "a varint of eleven bytes",
    delimited(int32s, delimited(1, [...new Array(10).fill(0xff), 1])),
    "ten bytes",
  ],
  [
    "a varint of eleven bytes, 64 bits",
    delimited(int64s, delimited(1, [1, ...new Array(10).fill(0xff), 1])),
    "ten bytes",
  ],
  [
    "a bool of eleven bytes",
    delimited(bools, delimited(1, [...new Array(10).fill(0xff), 1])),
    "ten bytes",
  ],
  [
    "a varint cut in two by its chunk",
    delimited(int32s, [...delimited(1, [0x80]), ...delimited(1, [1])]),
    "the end of a varint at byte 4",
  ],
  [
    "floats cut in two by their chunk",
    delimited(floats, [...delimited(1, [0, 0]), ...delimited(1, [0, 0])]),
    "a multiple of 4",
  ],
  ["a shape that is cut", delimited(15, [0x80]), "a varint at byte 2"],
  ["a string that is not UTF-8", delimited(strings, delimited(1, [0xc3, 0x28])), "UTF-8 at byte 4"],
  ["a surrogate in UTF-8", delimited(strings, delimited(1, [0xed, 0xa0, 0x80])), "UTF-8"],
  ["a type URL that is not UTF-8", delimited(protos, delimited(1, delimited(1, [0xff]))), "UTF-8"],
  ["a group without end", tag(20, 3), "a tag at byte 2"],
  ["an end without group", tag(20, 4), "the end of the group that is open"],
  ["another group's end", [...tag(20, 3), ...tag(21, 4)], "the end of the group that is open"],
  ["a fixed64 that is cut", [...tag(20, 1), 1, 2], "8 bytes"],
] as const)("%s is malformed, with its offset", (_, bytes, text) => {
  expect(() => decode(bytes)).toThrow(refusal("malformed", text));
});

test("a ten-byte varint with junk above its 64 bits is read as protobuf reads it", () => {
  const junk = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f];
  expect(decode(delimited(int64s, delimited(1, junk))).data[0]).toBe(-1n);
  expect(decode(delimited(int64s, delimited(1, [1, ...junk]))).data[1]).toBe(-1n);
  expect(decode(delimited(int32s, delimited(1, junk))).data[0]).toBe(-1);
});

test("a million nested groups are refused soon", () => {
  const bytes = new Uint8Array(2_000_000);
  for (let i = 0; i < bytes.length; i += 2) {
    bytes.set(tag(20, 3), i);
  }
  expect(() => decodeTensor(bytes)).toThrow(refusal("malformed", "groups at most 100 deep"));
});

test("behaviour 12: a shape of 2^31 by 2^31 is refused before anything is allocated", () => {
  const packed = decode([
    ...delimited(floats, delimited(1, [0, 0, 0, 0])),
    ...delimited(15, [...varint(2147483647), ...varint(2147483647)]),
  ]);
  expect(() => unpack(packed)).toThrow(refusal("limit", "at most 16777216 elements (maxElements)"));
  const many = decode([
    ...delimited(floats, delimited(1, [0, 0, 0, 0])),
    ...delimited(15, new Array(100).fill(varint(2147483647)).flat()),
  ]);
  expect(() => unpack(many)).toThrow(refusal("limit", "received Infinity"));
});

test.each([
  ["floats", delimited(floats, delimited(1, new Array(44).fill(0)))],
  ["bytes", delimited(uint8s, delimited(1, new Array(11).fill(0)))],
  ["integers", delimited(int32s, delimited(1, new Array(11).fill(0)))],
  ["64-bit integers", delimited(int64s, delimited(1, new Array(11).fill(0)))],
  ["booleans", delimited(bools, delimited(1, new Array(11).fill(0)))],
  ["integers one by one", delimited(int32s, new Array(11).fill(varintField(1, 5)).flat())],
  ["strings", delimited(strings, new Array(11).fill(delimited(1, [])).flat())],
  ["protos", delimited(protos, new Array(11).fill(delimited(1, [])).flat())],
])("more %s than maxElements are refused by that name", (_, bytes) => {
  expect(() => decode(bytes, { maxElements: 10 })).toThrow(refusal("limit", "(maxElements)"));
  expect(decode(bytes, { maxElements: 11 }).data).toHaveLength(11);
});

test("a string longer than maxStringBytes is refused with that name", () => {
  const bytes = delimited(strings, delimited(1, [65, 66, 67]));
  expect(() => decode(bytes, { maxStringBytes: 2 })).toThrow(refusal("limit", "(maxStringBytes)"));
  expect(decode(bytes, { maxStringBytes: 3 }).data).toEqual(["ABC"]);
});

test("more entries or requested UIDs than maxEntries are refused with that name", () => {
  const codec = createRequestCodec({ maxEntries: 2 });
  const entry = (uid: number) => delimited(1, varintField(1, uid));
  const read = (...fields: number[][]) => {
    const bytes = Uint8Array.from(delimited(3, fields.flat()));
    return codec.read(bytes, 0, bytes.length);
  };
  expect(read(entry(1), entry(2), entry(1), delimited(2, [5, 5]))).toMatchObject({ case: "step" });
  const refused = { case: "malformed", value: refusal("limit", "(maxEntries)") };
  expect(read(entry(1), entry(2), entry(3))).toMatchObject(refused);
  expect(read(delimited(2, [5, 5, 5]))).toMatchObject(refused);
  expect(read(delimited(2, [5, 5]), varintField(2, 5))).toMatchObject(refused);
});

test("a field in a hundred thousand parts takes time in proportion", () => {
  const part = delimited(int32s, varintField(1, 7));
  const bytes = Uint8Array.from(new Array(100_000).fill(part).flat());
  expect(decodeTensor(bytes).data).toHaveLength(100_000);
});

test("a map of a hundred thousand entries takes time in proportion", () => {
  const entries = Array.from({ length: 100_000 }, (_, uid) => delimited(1, varintField(1, uid)));
  const bytes = Uint8Array.from(delimited(3, [...entries, ...entries].flat()));
  const codec = createRequestCodec({ maxEntries: 100_000 });
  const read = codec.read(bytes, 0, bytes.length) as ProcessRequest;
  expect(read.case === "step" && read.value.actions.length).toBe(100_000);
});

test("random and mutated bytes decode to messages or typed errors", () => {
  const corpus = golden.map(({ bytes }) => bytes);
  const random = seeded(20260101);
  let messages = 0;
  for (let i = 0; i < 20_000; i++) {
    const seed = corpus[Math.floor(random() * corpus.length)] as Uint8Array;
    const bytes = i % 4 === 0 ? noise(random) : mutate(seed, random);
    if (fuzzOne(bytes) === "message") {
      messages++;
    }
  }
  expect(messages).toBeGreaterThan(1000);
});
