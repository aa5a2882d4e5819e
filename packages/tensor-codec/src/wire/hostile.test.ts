// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { earlyRefusalOf } from "../../testing/arriving.ts";
import { fuzzOne } from "../../testing/fuzz.ts";
import { golden } from "../../testing/golden.ts";
import { mutate, noise, seeded } from "../../testing/mutate.ts";
import { delimited, tag, varint, varintField } from "../../testing/protobuf.ts";
import { encode } from "../../testing/steps.ts";
import type { Limits } from "../errors/limits.ts";
import { pack } from "../packing/pack.ts";
import { unpack } from "../packing/unpack.ts";
import { createArrivingRequestCodec, decodeTensor } from "./index.ts";
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
  const codec = createArrivingRequestCodec();
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
    "the last byte of a varint at byte 4",
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

test("a million nested groups are refused at a depth of 100", () => {
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
  expect(() => unpack(packed)).toThrow(
    refusal("limit", "at most 16777216 elements (limit: maxElements)"),
  );
  const many = decode([
    ...delimited(floats, delimited(1, [0, 0, 0, 0])),
    ...delimited(15, new Array(60).fill(varint(2147483647)).flat()),
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
])("more %s than maxElements are refused, and the error names maxElements", (_, bytes) => {
  expect(() => decode(bytes, { maxElements: 10 })).toThrow(
    refusal("limit", "(limit: maxElements)"),
  );
  expect(decode(bytes, { maxElements: 11 }).data).toHaveLength(11);
});

test("more bytes than maxElements are refused even if a later field replaces them", () => {
  const zeros = (count: number) => delimited(1, new Array(count).fill(0));
  const replaced = (count: number) => delimited(uint8s, [...zeros(count), ...zeros(2)]);
  const options = { maxElements: 10 };
  expect(() => decode(replaced(11), options)).toThrow(refusal("limit", "(limit: maxElements)"));
  expect(decode(replaced(10), options).data).toHaveLength(2);
});

test("a string longer than maxStringBytes is refused, and the error names maxStringBytes", () => {
  const bytes = delimited(strings, delimited(1, [65, 66, 67]));
  expect(() => decode(bytes, { maxStringBytes: 2 })).toThrow(
    refusal("limit", "(limit: maxStringBytes)"),
  );
  expect(decode(bytes, { maxStringBytes: 3 }).data).toEqual(["ABC"]);
});

test("more entries or requested UIDs than maxEntries are refused, and the error names maxEntries", () => {
  const codec = createArrivingRequestCodec({ maxEntries: 2 });
  const entry = (uid: number) => delimited(1, varintField(1, uid));
  const read = (...fields: number[][]) => {
    const bytes = Uint8Array.from(delimited(3, fields.flat()));
    return codec.read(bytes, 0, bytes.length);
  };
  expect(read(entry(1), entry(2), delimited(2, [5, 5]))).toMatchObject({ case: "step" });
  const refused = { case: "malformed", value: refusal("limit", "(limit: maxEntries)") };
  expect(read(entry(1), entry(2), entry(3))).toMatchObject(refused);
  expect(read(entry(1), entry(1), entry(1))).toMatchObject(refused);
  expect(read(delimited(2, [5, 5, 5]))).toMatchObject(refused);
  expect(read(delimited(2, [5, 5]), varintField(2, 5))).toMatchObject(refused);
});

test("behaviour 12: more dimensions than maxDimensions are refused before any is allocated", () => {
  const codec = createArrivingRequestCodec();
  const refused = { case: "malformed", value: refusal("limit", "at most 64 dimensions") };
  // A shape of these would take half a gigabyte.
  const dimensions = new Uint8Array(60_000_000);
  let around: number[] = [];
  for (const field of [15, 2, 1, 3]) {
    around = [...tag(field, 2), ...varint(dimensions.length + around.length), ...around];
  }
  const bytes = new Uint8Array(around.length + dimensions.length);
  bytes.set(around);
  const before = process.memoryUsage().heapUsed;
  expect(codec.read(bytes, 0, bytes.length)).toMatchObject(refused);
  expect(process.memoryUsage().heapUsed - before).toBeLessThan(10_000_000);
  const shaped = (parts: number, each: number) => {
    const tensor = new Array(parts).fill(delimited(15, new Array(each).fill(1))).flat();
    return Uint8Array.from(delimited(3, delimited(1, delimited(2, tensor))));
  };
  const [most, more] = [shaped(1, 64), shaped(13, 5)];
  expect(codec.read(most, 0, most.length)).toMatchObject({ case: "step" });
  expect(codec.read(more, 0, more.length)).toMatchObject(refused);
});

const step = (...fields: number[][]) => delimited(3, fields.flat());
const tensor = (...fields: number[][]) => step(delimited(1, delimited(2, fields.flat())));
const times = (count: number, bytes: readonly number[]) =>
  new Array<readonly number[]>(count).fill(bytes).flat();

// A step costs 4, and 4 each for its entry and tensor; an array and a packed field cost 1.
test.each<[string, number, (count: number) => number[]]>([
  ["integers one by one", 33, (n) => tensor(delimited(int32s, times(n, varintField(1, 5))))],
  ["chunks of one integer", 33, (n) => tensor(delimited(int64s, times(n, delimited(1, [5]))))],
  ["empty chunks", 35, (n) => tensor(delimited(floats, times(n, delimited(1, []))))],
  ["chunks of bytes", 35, (n) => tensor(delimited(uint8s, times(n, delimited(1, [5]))))],
  [
    "packed integers of one byte",
    575,
    (n) => tensor(delimited(int32s, delimited(1, times(n, [5])))),
  ],
  [
    "packed integers of two bytes",
    287,
    (n) => tensor(delimited(int64s, delimited(1, times(n, [0x85, 1])))),
  ],
  [
    "packed booleans of two bytes",
    287,
    (n) => tensor(delimited(bools, delimited(1, times(n, [0x81, 0])))),
  ],
  ["strings", 8, (n) => tensor(delimited(strings, times(n, delimited(1, []))))],
  ["protos", 8, (n) => tensor(delimited(protos, times(n, delimited(1, []))))],
  [
    "parts of a proto",
    7,
    (n) => tensor(delimited(protos, delimited(1, times(n, delimited(2, []))))),
  ],
  ["arrays of a tensor", 36, (n) => tensor(times(n, delimited(int32s, [])))],
  [
    "dimensions of two tensors",
    26,
    (n) =>
      step(
        delimited(1, delimited(2, delimited(15, times(20, [1])))),
        delimited(1, delimited(2, delimited(15, times(n - 20, [1])))),
      ),
  ],
  [
    "integers of an array that another replaces",
    29,
    (n) => tensor(delimited(int32s, times(n, varintField(1, 5))), delimited(floats, [])),
  ],
  [
    "arrays that replace each other",
    8,
    (n) =>
      tensor(...Array.from({ length: n }, (_, i) => delimited(i % 2 === 0 ? int32s : floats, []))),
  ],
  ["empty lists of dimensions", 36, (n) => tensor(times(n, delimited(15, [])))],
  ["empty lists of requested observations", 44, (n) => step(times(n, delimited(2, [])))],
  ["entries", 11, (n) => step(times(n, delimited(1, [])))],
  ["keys of an entry", 40, (n) => step(delimited(1, times(n, varintField(1, 3))))],
  ["tensors of an entry", 10, (n) => step(delimited(1, times(n, delimited(2, []))))],
  ["requested observations", 43, (n) => step(delimited(2, times(n, [3])))],
  ["requested observations one by one", 44, (n) => step(times(n, varintField(2, 3)))],
  ["unknown fields", 44, (n) => step(times(n, varintField(9, 3)))],
  ["parts of a step", 12, (n) => times(n, step())],
])("a step that takes more work than maxMessageWork is refused: %s", (kind, most, bytes) => {
  const codec = createArrivingRequestCodec({ maxMessageWork: 48 });
  const read = (count: number) => {
    const message = Uint8Array.from(bytes(count));
    return codec.read(message, 0, message.length);
  };
  const refused = { case: "malformed", value: refusal("limit", "(limit: maxMessageWork)") };
  expect(read(most + 1)).toMatchObject(refused);
  expect(read(most)).toMatchObject({ case: "step" });
  // Only the values of booleans tell their work.
  if (kind !== "packed booleans of two bytes") {
    expect(earlyRefusalOf(codec, Uint8Array.from(bytes(most + 1)))).toMatchObject(refused);
  }
  expect(earlyRefusalOf(codec, Uint8Array.from(bytes(most)))).toBeUndefined();
  // The work of a step whose layout is known counts, too.
  expect(read(most)).toMatchObject({ case: "step" });
  expect(read(most + 1)).toMatchObject(refused);
});

test("bytes, booleans, floats and the bytes of strings take no work", () => {
  const codec = createArrivingRequestCodec({ maxMessageWork: 48 });
  const large = new Array(4000).fill(1);
  for (const type of [floats, uint8s, bools]) {
    const bytes = Uint8Array.from(tensor(delimited(type, delimited(1, large))));
    expect(codec.read(bytes, 0, bytes.length)).toMatchObject({ case: "step" });
  }
  const text = Uint8Array.from(tensor(delimited(strings, delimited(1, large))));
  expect(codec.read(text, 0, text.length)).toMatchObject({ case: "step" });
});

describe("the elements of a broadcast", () => {
  const filled = (type: number, element: readonly number[], ...dimensions: number[]) =>
    delimited(2, [
      ...delimited(type, delimited(1, element)),
      ...delimited(
        15,
        dimensions.flatMap((size) => varint(size)),
      ),
    ]);
  const action = (uid: number, tensor: number[]) =>
    delimited(1, [...varintField(1, uid), ...tensor]);
  const read = (limits: Limits, ...actions: number[][]) => {
    const bytes = Uint8Array.from(step(...actions));
    return createArrivingRequestCodec(limits).read(bytes, 0, bytes.length);
  };
  const refused = { case: "malformed", value: refusal("limit", "(limit: maxMessageWork)") };

  test.each<[string, number, readonly number[], number]>([
    ["floats", floats, [0, 0, 0, 0], 4],
    ["64-bit integers", int64s, [5], 8],
    ["bytes", uint8s, [5], 1],
    ["strings", strings, [65], 8],
  ])("take work before memory is allocated: %s", (_, type, element, bytes) => {
    const size = (20 * 256) / bytes;
    const tensors = [
      action(1, filled(type, element, size)),
      action(2, filled(type, element, 1, size)),
    ];
    // Without the broadcasts, the step costs at most 37.
    expect(read({ maxMessageWork: 77 }, ...tensors)).toMatchObject({ case: "step" });
    expect(read({ maxMessageWork: 60 }, ...tensors)).toMatchObject(refused);
  });

  test("of several actions of a small step take at most 64 MiB by default", () => {
    const large = filled(floats, [0, 0, 0, 0], 8, 2 ** 20 - 2);
    expect(read({}, action(1, large))).toMatchObject({ case: "step" });
    expect(read({}, action(1, large), action(2, large), action(3, large))).toMatchObject(refused);
  });

  test("take work in a step whose layout is known, too", () => {
    const codec = createArrivingRequestCodec();
    const actions = (...content: number[]) => {
      const tensors = Array.from({ length: 30 }, (_, i) =>
        action(i, filled(int32s, content, 2 ** 24)),
      );
      return Uint8Array.from(step(...tensors));
    };
    const two = actions(5, 5); // Not broadcast: two elements.
    const one = actions(0x85, 0); // One element in two bytes, so the layout is the same.
    for (let i = 0; i < 9; i++) {
      expect(codec.read(two, 0, two.length)).toMatchObject({ case: "step" });
    }
    expect(codec.read(one, 0, one.length)).toMatchObject(refused);
  });

  test("take no work outside a step", () => {
    const tensorBytes = Uint8Array.from(filled(floats, [0, 0, 0, 0], 2 ** 12, 2 ** 12).slice(2));
    expect(decodeTensor(tensorBytes)).toMatchObject({ shape: [2 ** 12, 2 ** 12] });
  });

  test("are not counted above maxElements, because no memory is allocated for them", () => {
    const huge = filled(floats, [0, 0, 0, 0], 2 ** 31 - 1, 2 ** 31 - 1);
    expect(read({}, action(1, huge))).toMatchObject({ case: "step" });
  });
});

test("a message that exceeds a limit does not affect the next one", () => {
  const codec = createArrivingRequestCodec({ maxMessageWork: 48 });
  const small = Uint8Array.from(tensor(delimited(int32s, delimited(1, [5]))));
  const large = Uint8Array.from(tensor(delimited(int32s, delimited(1, times(1000, [5])))));
  for (let i = 0; i < 9; i++) {
    expect(codec.read(large, 0, large.length)).toMatchObject({ case: "malformed" });
    expect(codec.read(small, 0, small.length)).toMatchObject({ case: "step" });
  }
});

test("decoding a field of 100,000 parts takes linear time", () => {
  const part = delimited(int32s, varintField(1, 7));
  const bytes = Uint8Array.from(new Array(100_000).fill(part).flat());
  expect(decodeTensor(bytes).data).toHaveLength(100_000);
});

test("decoding a map of 100,000 entries takes linear time", () => {
  const entries = Array.from({ length: 100_000 }, (_, uid) => delimited(1, varintField(1, uid)));
  const bytes = Uint8Array.from(delimited(3, [...entries, ...entries].flat()));
  const codec = createArrivingRequestCodec({ maxEntries: 200_000, maxMessageWork: 2 ** 21 });
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
