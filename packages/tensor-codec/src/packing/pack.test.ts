// SPDX-License-Identifier: Apache-2.0
import { create, createRegistry } from "@bufbuild/protobuf";
import { anyPack, type Struct, StructSchema } from "@bufbuild/protobuf/wkt";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { tensors } from "../../testing/arbitraries.ts";
import { bitsOf } from "../../testing/bits.ts";
import type { DType } from "../dtypes/dtype.ts";
import { t } from "../specs/build.ts";
import { type Tensor, tensor } from "../tensors/tensor.ts";
import { type PackValue, pack, packFor } from "./pack.ts";
import { toMessages, toNested, unpack } from "./unpack.ts";

const refusal = (reason: string, text: string) =>
  expect.objectContaining({ name: "TensorError", reason, message: expect.stringContaining(text) });

describe("pack", () => {
  test("infers a dtype by the value's type, never by its magnitude", () => {
    expect(pack(1).dtype).toBe("float64");
    expect(pack(1n).dtype).toBe("int64");
    expect(pack(true).dtype).toBe("bool");
    expect(pack("a").dtype).toBe("string");
    expect(pack([[1, 2]]).dtype).toBe("float64");
    expect(pack(new Float32Array(2)).dtype).toBe("float32");
    expect(pack(new Uint8Array(2)).dtype).toBe("uint8");
    expect(pack(new Uint8ClampedArray(2)).dtype).toBe("uint8");
    expect(pack(new BigUint64Array(2)).dtype).toBe("uint64");
  });

  test("borrows typed arrays and tensors, and copies nested arrays", () => {
    const array = new Float32Array(6);
    expect(pack(array).data).toBe(array);
    expect(pack(array, { shape: [2, -1] })).toEqual({
      dtype: "float32",
      shape: [2, 3],
      data: array,
    });
    const whole = tensor("int8", [2], new Int8Array(2));
    expect(pack(whole)).toBe(whole);
    expect(
      pack(
        [
          [1, 2],
          [3, 4],
        ],
        { dtype: "int32" },
      ),
    ).toEqual({
      dtype: "int32",
      shape: [2, 2],
      data: new Int32Array([1, 2, 3, 4]),
    });
  });

  test("behaviour 13: packing a tensor's nested arrays restores the tensor", () => {
    fc.assert(
      fc.property(tensors, (whole) => {
        // Nested arrays of a shape with a 0 lose the dimensions after the 0.
        fc.pre(!whole.shape.slice(0, -1).includes(0));
        const nested = toNested(whole as Tensor<"float64">) as PackValue;
        const packed = pack(nested, { dtype: whole.dtype });
        const numeric = whole.dtype === "float32" || whole.dtype === "float64";
        if (numeric && [...whole.data].some(Number.isNaN)) {
          return; // a NaN's payload is not in a number
        }
        expect(bitsOf(packed)).toEqual(bitsOf(whole));
      }),
    );
  });

  test("rounds a number to float32 if float32 is given", () => {
    expect(pack(0.1, { dtype: "float32" }).data[0]).toBe(Math.fround(0.1));
    expect(pack(-0, { dtype: "float32" }).data[0]).toBe(-0);
    expect(pack(Number.POSITIVE_INFINITY, { dtype: "float32" }).data[0]).toBe(
      Number.POSITIVE_INFINITY,
    );
  });

  test.each<[string, PackValue, DType, string, string]>([
    ["a fraction as int32", 1.5, "int32", "value", "an integer as the value of an int32 tensor"],
    ["NaN as int32", Number.NaN, "int32", "value", "an integer"],
    ["300 as uint8", 300, "uint8", "value", "a number from 0 to 255"],
    ["-1 as uint32", [0, -1], "uint32", "value", "as element [1]"],
    ["a number as int64", 5, "int64", "dtype", "use 5n"],
    ["a bigint as int32", 5n, "int32", "dtype", "use Number(…)"],
    ["2^63 as int64", 2n ** 63n, "int64", "value", "to 9223372036854775807n"],
    ["-1n as uint64", -1n, "uint64", "value", "a bigint from 0n"],
    ["1e39 as float32", 1e39, "float32", "value", "use float64"],
    ["1 as bool", 1, "bool", "dtype", "true or false"],
    ["a number as string", [["a", 1]] as never, "string", "dtype", "element [0, 1]"],
    ["a lone surrogate", "a\ud800", "string", "value", "toWellFormed()"],
    ["a Float64Array as float32", new Float64Array(1), "float32", "dtype", "nothing is cast"],
    ["a Float32Array as float64", new Float32Array(1), "float64", "dtype", "a Float32Array of 1"],
    [
      "a uint8 that is not a bool",
      new Uint8Array([0, 2]),
      "bool",
      "value",
      "0 or 1 as element [1]",
    ],
    [
      "a tensor with an unknown dtype",
      { dtype: "toString", shape: [], data: [] } as never,
      undefined as never,
      "dtype",
      "a toString tensor",
    ],
    ["a tensor of another dtype", pack(1), "float32", "dtype", "a float64 tensor of shape []"],
  ])("behaviour 13: refuses %s", (_, value, dtype, reason, text) => {
    expect(() => pack(value, { dtype, name: "x" })).toThrow(refusal(reason, text));
    expect(() => pack(value, { dtype, name: "x" })).toThrow(/^"x": expected /);
  });

  test.each<[string, PackValue, string]>([
    ["a short row", [[1, 2], [3]], "an array of 2 at index [1], received an array of 1"],
    ["a scalar among rows", [[1], 2], "an array of 1 at index [1], received the number 2"],
    ["a row among scalars", [1, [2]], "a scalar, like its siblings, at index [1]"],
    [
      "a deep short row",
      [
        [[1], [2]],
        [[3], []],
      ],
      "at index [1, 1]",
    ],
  ])("behaviour 10: refuses ragged arrays, with the index: %s", (_, value, text) => {
    expect(() => pack(value)).toThrow(refusal("ragged", text));
  });

  test("needs a dtype if the value does not determine one", () => {
    expect(() => pack([])).toThrow(refusal("dtype", "give a dtype"));
    expect(() => pack(new DataView(new ArrayBuffer(1)) as never)).toThrow(
      refusal("dtype", "give a dtype"),
    );
    expect(pack([], { dtype: "float32" })).toEqual(tensor("float32", [0], new Float32Array(0)));
    expect(pack([[], []], { dtype: "string" })).toEqual(tensor("string", [2, 0], []));
  });

  test("a hostile or mistaken depth is an error, not a crash", () => {
    const circle: unknown[] = [];
    circle.push(circle);
    expect(() => pack(circle as PackValue)).toThrow(refusal("shape", "at most 64 deep"));
  });

  test("checks elements against maxElements before it copies them", () => {
    expect(() => pack([1, 2, 3], { maxElements: 2 })).toThrow(
      refusal("limit", "(limit: maxElements)"),
    );
    expect(() => pack(new Int8Array(3), { maxElements: 2 })).toThrow(refusal("limit", "3"));
    expect(pack(new Int8Array(2), { maxElements: 2 }).data).toHaveLength(2);
  });

  test("behaviour 20: compress writes only an all-equal tensor as one element", () => {
    const same = pack(new Float32Array(600).fill(0.5), { shape: [20, 30], compress: true });
    expect(same).toEqual({ dtype: "float32", shape: [20, 30], data: new Float32Array([0.5]) });
    expect(unpack(same).data).toEqual(new Float32Array(600).fill(0.5));
    expect(pack([0, -0], { compress: true }).data).toHaveLength(2);
    expect(pack(["a", "a"], { compress: true }).data).toEqual(["a"]);
    expect(pack([1, 2], { compress: true }).data).toHaveLength(2);
    expect(pack([], { dtype: "int8", compress: true }).data).toHaveLength(0);
  });

  test("behaviour 20: compressing and unpacking changes no bit", () => {
    fc.assert(
      fc.property(tensors, (whole) => {
        expect(bitsOf(unpack(pack(whole, { compress: true })))).toEqual(bitsOf(whole));
      }),
    );
  });

  test("behaviour 19: pack accepts Anys, and with a registry also messages, which it packs as Any", () => {
    const struct = create(StructSchema, {
      fields: { health: { kind: { case: "numberValue", value: 1.5 } } },
    });
    const registry = createRegistry(StructSchema);
    const packed = pack([struct, struct], { registry });
    expect(packed.dtype).toBe("proto");
    expect(toMessages(packed, registry) as Struct[]).toEqual([struct, struct]);
    const any = anyPack(StructSchema, struct);
    expect(pack(any)).toEqual({ dtype: "proto", shape: [], data: [any] });
    const missing = "a registry that has google.protobuf.Struct";
    expect(() => pack(struct)).toThrow(refusal("dtype", `${missing}, received none`));
    expect(() => pack(struct, { registry: createRegistry() })).toThrow(
      refusal("dtype", `${missing}, received one without it`),
    );
    expect(() => toMessages(packed, createRegistry())).toThrow(refusal("value", "a registry"));
  });
});

describe("a tensor that is packed again", () => {
  test("has the dtype that it is packed as, and data of that dtype", () => {
    const bools = tensor("bool", [2], Uint8Array.of(0, 1));
    expect(pack(bools, { dtype: "bool" })).toBe(bools);
    expect(() => pack(bools, { dtype: "uint8" })).toThrow(refusal("dtype", "a uint8 tensor"));
    const floats = { dtype: "int8", shape: [1], data: new Float32Array(1) } as never;
    expect(() => pack(floats)).toThrow(refusal("dtype", "an int8 tensor"));
  });

  test("has only elements and dimensions that the protocol allows", () => {
    const twos = { dtype: "bool", shape: [1], data: Uint8Array.of(2) } as const;
    expect(() => pack(twos)).toThrow(refusal("value", "0 or 1 as element [0]"));
    expect(() => packFor(twos, t.bool([1]), "x")).toThrow(refusal("value", '"x": expected 0 or 1'));
    expect(() => packFor(twos.data, t.bool([1]), "x")).toThrow(refusal("value", "0 or 1"));
    const wide = { dtype: "int8", shape: [-(2 ** 31) - 1], data: new Int8Array(1) } as const;
    expect(() => pack(wide)).toThrow(refusal("shape", "32-bit integers"));
  });
});

describe("the dimensions of a packed shape", () => {
  test("have 31 bits, or 32 if they are variable", () => {
    expect(pack(1, { shape: [-(2 ** 31)] }).shape).toEqual([1]);
    expect(() => pack(1, { shape: [2 ** 31 - 1] })).toThrow(refusal("limit", `${2 ** 31 - 1}`));
    expect(() => pack(1, { shape: [2 ** 31] })).toThrow(refusal("shape", "32-bit integers"));
    expect(() => pack(1, { shape: [-(2 ** 31) - 1] })).toThrow(refusal("shape", "32-bit integers"));
  });
});

describe("packFor", () => {
  test("accepts a Uint8ClampedArray only for uint8", () => {
    const clamped = Uint8ClampedArray.of(1, 255);
    expect(packFor(clamped, t.uint8([2]), "x").data).toEqual(Uint8Array.of(1, 255));
    expect(() => packFor(clamped, t.int8([2]), "x")).toThrow(
      refusal("dtype", '"x": expected an int8 tensor, received a Uint8ClampedArray of 2'),
    );
    expect(() => packFor({}, t.uint8([2]), "x")).toThrow(refusal("dtype", "received an object"));
  });

  test("checks maxElements against the broadcast shape of a single element", () => {
    const packed = { dtype: "int8", shape: [5], data: new Int8Array(1) } as const;
    expect(() => packFor(packed, t.int8([5]), "x", { maxElements: 4 })).toThrow(
      refusal("limit", "at most 4 elements (limit: maxElements), received 5"),
    );
    expect(packFor(packed, t.int8([5]), "x", { maxElements: 5 }).data).toHaveLength(1);
  });

  test("packs a scalar for a scalar spec", () => {
    expect(packFor(0.5, t.float32(), "speed")).toEqual(
      tensor("float32", [], new Float32Array([0.5])),
    );
    expect(packFor(5n, t.uint64(), "seed")).toEqual(tensor("uint64", [], new BigUint64Array([5n])));
    expect(packFor(true, t.bool(), "door")).toEqual(tensor("bool", [], new Uint8Array([1])));
    expect(packFor("a", t.string(), "name")).toEqual(tensor("string", [], ["a"]));
    const any = anyPack(StructSchema, create(StructSchema));
    expect(packFor(any, t.proto(), "any")).toEqual(tensor("proto", [], [any]));
  });

  test("a scalar fills any shape, and makes a variable dimension 1", () => {
    expect(packFor(7, t.int8([2, 2]), "x")).toEqual(
      tensor("int8", [2, 2], new Int8Array(4).fill(7)),
    );
    expect(packFor(7, t.int8([2, -1]), "x")).toEqual(tensor("int8", [2, 1], new Int8Array([7, 7])));
    expect(packFor("a", t.string([2]), "x")).toEqual(tensor("string", [2], ["a", "a"]));
    expect(() => packFor(7, t.int8([0]), "x")).toThrow(refusal("shape", "0 elements"));
  });

  test("flat data gets the spec's shape, with a variable dimension inferred", () => {
    const data = new Uint8Array(6);
    expect(packFor(data, t.uint8([2, 3]), "x")).toEqual({ dtype: "uint8", shape: [2, 3], data });
    expect(packFor(data, t.uint8([2, -1]), "x").shape).toEqual([2, 3]);
    expect(packFor(data, t.uint8([2, 3]), "x").data).toBe(data);
    expect(packFor(new Uint8ClampedArray(6), t.uint8([6]), "x").data).toEqual(data);
    expect(packFor(["a", "b"], t.string([2, 1]), "x").shape).toEqual([2, 1]);
    expect(() => packFor(data, t.uint8([2, 2]), "x")).toThrow(
      refusal("shape", '"x": expected 4 elements'),
    );
    expect(() => packFor(new Uint8Array(1), t.uint8([2]), "x")).toThrow(
      refusal("shape", "a scalar to fill"),
    );
  });

  test("nested arrays have the spec's shape", () => {
    expect(packFor([[1], [2]], t.int32([2, 1]), "x")).toEqual(
      tensor("int32", [2, 1], new Int32Array([1, 2])),
    );
    expect(packFor([[1, 2]], t.int32([1, -1]), "x").shape).toEqual([1, 2]);
    expect(() => packFor([1, 2], t.int32([2, 1]), "x")).toThrow(refusal("shape", "shape [2, 1]"));
    expect(() => packFor([], t.int32(), "x")).toThrow(refusal("shape", "give a scalar"));
  });

  test("a tensor is checked and borrowed, packed or not", () => {
    const whole = tensor("int32", [2], new Int32Array([1, 2]));
    expect(packFor(whole, t.int32([2]), "x").data).toBe(whole.data);
    expect(packFor({ ...whole, shape: [-1] }, t.int32([2]), "x").shape).toEqual([2]);
    const one = pack([3, 3], { dtype: "int32", compress: true });
    expect(packFor(one, t.int32([2]), "x")).toEqual(one);
    expect(() => packFor(whole, t.int32([3]), "x")).toThrow(refusal("shape", "shape [3]"));
    expect(() => packFor(whole, t.float32([2]), "x")).toThrow(
      refusal("dtype", "an int32 tensor of shape [2]"),
    );
    expect(() => packFor({ ...whole, shape: [0.5] }, t.int32([2]), "x")).toThrow(
      refusal("shape", "32-bit integers"),
    );
  });

  test.each<[string, unknown, () => unknown]>([
    ["a message that is not an Any", create(StructSchema), () => t.proto()],
    ["nothing", undefined, () => t.float32()],
    ["null", null, () => t.float32()],
    ["a function", () => 1, () => t.float32()],
    ["a DataView", new DataView(new ArrayBuffer(4)), () => t.float32()],
    ["an object", { a: 1 }, () => t.float32([1])],
    ["a number for a string", 1, () => t.string()],
    ["a typed array of another dtype", new Int32Array(2), () => t.uint32([2])],
    ["a tensor that lies", { dtype: "int8", shape: [2], data: [1, 2] }, () => t.int8([2])],
  ])("behaviour 13: refuses %s", (_, value, spec) => {
    expect(() => packFor(value, spec() as never, "x")).toThrow(refusal("dtype", '"x": expected'));
  });

  test("checks elements against maxElements before it allocates", () => {
    const many = { maxElements: 3 };
    const four = new Int8Array(4);
    const packings = [7, four, [1, 2, 3, 4], tensor("int8", [4], four)];
    for (const value of packings) {
      expect(() => packFor(value, t.int8([4]), "x", many)).toThrow(
        refusal("limit", '"x": expected at most 3 elements (limit: maxElements)'),
      );
      expect(packFor(value, t.int8([4]), "x", { maxElements: 4 }).data).toHaveLength(4);
    }
    expect(() => packFor(7, t.int8([2 ** 20, 17]), "x")).toThrow(refusal("limit", "16777216"));
  });

  test("behaviour 17: refuses a value out of bounds and names the element", () => {
    const spec = t.float32([2, 2], { min: -1, max: 0.1 });
    expect(
      packFor(
        [
          [0.1, 0],
          [0, -1],
        ],
        spec,
        "x",
      ).data[0],
    ).toBe(Math.fround(0.1));
    expect(() =>
      packFor(
        [
          [0, 0],
          [0, 0.2],
        ],
        spec,
        "joints",
      ),
    ).toThrow(
      refusal("bounds", '"joints": expected element [1, 1] from -1 to 0.10000000149011612'),
    );
    expect(() => packFor(Number.NaN, t.float32({ min: 0 }), "x")).toThrow(
      refusal("bounds", "received NaN"),
    );
    expect(() => packFor(Number.NaN, t.float32({ max: 0 }), "x")).toThrow(
      refusal("bounds", "received NaN"),
    );
    expect(() => packFor(5, t.discrete(5), "move")).toThrow(
      refusal("bounds", '"move": expected the value from 0 to 4, received 5'),
    );
    expect(() => packFor(-1n, t.int64({ min: 1n }), "x")).toThrow(refusal("bounds", "at least 1n"));
    expect(packFor(0.1, { dtype: "float32", shape: [], max: 0.1 }, "x").data).toHaveLength(1);
  });

  test("behaviour 16: per-element bounds apply to each element, also of a broadcast", () => {
    const spec = t.int32([3], { min: [0, 1, 2], max: 9 });
    expect(packFor([0, 1, 2], spec, "x").data).toHaveLength(3);
    expect(() => packFor([0, 0, 2], spec, "x")).toThrow(
      refusal("bounds", "element [1] from 1 to 9"),
    );
    expect(() => packFor(1, spec, "x")).toThrow(refusal("bounds", "element [2] from 2 to 9"));
    const one = { dtype: "int32", shape: [3], data: new Int32Array([1]) } as const;
    expect(() => packFor(one, spec, "x")).toThrow(refusal("bounds", "element [2]"));
  });
});
