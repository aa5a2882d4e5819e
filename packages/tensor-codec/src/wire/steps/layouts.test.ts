// SPDX-License-Identifier: Apache-2.0
import { fromBinary, toBinary } from "@bufbuild/protobuf";
import { TensorSchema } from "@dm-env-rpc/protocol";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { anyDType, data, everyDType, tensors, tensorsOf } from "../../../testing/arbitraries.ts";
import { bitsOf, valuesOf } from "../../../testing/bits.ts";
import { choices, layTensor, plain } from "../../../testing/layouts.ts";
import { packTensor, unpackTensor } from "../../proto/tensors.ts";
import type { Tensor } from "../../tensors/tensor.ts";
import { decodeTensor, encodeTensor } from "../index.ts";

describe.each(everyDType)("%s", (dtype) => {
  test("behaviour 13: encoded tensors decode to the same bits", () => {
    fc.assert(
      fc.property(tensorsOf(dtype), (tensor) => {
        const decoded = decodeTensor(encodeTensor(tensor));
        expect(bitsOf(decoded)).toEqual(bitsOf(tensor));
      }),
    );
  });

  test("behaviour 13: it decodes to the same bits at every offset, as a view or a copy", () => {
    fc.assert(
      fc.property(tensorsOf(dtype), fc.nat(15), fc.boolean(), (tensor, offset, copy) => {
        const bytes = encodeTensor(tensor);
        const shifted = new Uint8Array(offset + bytes.length + 3);
        shifted.set(bytes, offset);
        const decoded = decodeTensor(shifted.subarray(offset, offset + bytes.length), { copy });
        expect(bitsOf(decoded)).toEqual(bitsOf(tensor));
      }),
    );
  });

  test("our bytes equal the generated code's, which reads the same tensor", () => {
    fc.assert(
      fc.property(tensorsOf(dtype), (tensor) => {
        const bytes = encodeTensor(tensor);
        const message = fromBinary(TensorSchema, bytes);
        expect(valuesOf(unpackTensor(message))).toEqual(valuesOf(tensor));
        // A NaN loses its payload in the generated code, so bytes are compared without any.
        if (Array.from<unknown>(tensor.data).some(Number.isNaN)) {
          return;
        }
        expect(Buffer.from(bytes).equals(toBinary(TensorSchema, packTensor(tensor)))).toBe(true);
      }),
    );
  });

  test("behaviour 14: every layout decodes to the same tensor, for us and the generated code", () => {
    fc.assert(
      fc.property(tensorsOf(dtype), choices, fc.nat(3), (tensor, choose, offset) => {
        const bytes = Uint8Array.from([...new Array(offset).fill(0), ...layTensor(tensor, choose)]);
        const decoded = decodeTensor(bytes.subarray(offset));
        expect(bitsOf(decoded)).toEqual(bitsOf(tensor));
        const message = fromBinary(TensorSchema, bytes.subarray(offset), {
          readUnknownFields: false,
        });
        expect(valuesOf(decoded)).toEqual(valuesOf(unpackTensor(message)));
      }),
      { numRuns: 400 },
    );
  });
});

test("encodeTensor writes the plain layout", () => {
  fc.assert(
    fc.property(tensors, (tensor) => {
      fc.pre(tensor.data.length > 0);
      expect(layTensor(tensor, plain)).toEqual([...encodeTensor(tensor)]);
    }),
  );
});

test("behaviour 13: large arrays decode to the same bits, and the generated code reads the same", () => {
  const large = anyDType.chain((dtype) =>
    fc
      .nat(3000)
      .chain((length) => data(dtype, length))
      .map((elements) => ({ dtype, shape: [elements.length], data: elements }) as Tensor),
  );
  fc.assert(
    fc.property(large, (tensor) => {
      const bytes = encodeTensor(tensor);
      expect(bitsOf(decodeTensor(bytes))).toEqual(bitsOf(tensor));
      expect(valuesOf(unpackTensor(fromBinary(TensorSchema, bytes)))).toEqual(valuesOf(tensor));
    }),
    { numRuns: 60 },
  );
});

test("copied data shares no memory with the message", () => {
  const bytes = encodeTensor({ dtype: "uint8", shape: [100], data: new Uint8Array(100) });
  const view = decodeTensor(bytes);
  const copy = decodeTensor(bytes, { copy: true });
  bytes.fill(1);
  expect(view.data[0]).toBe(1);
  expect(copy.data[0]).toBe(0);
});

test("behaviour 13: a NaN keeps its payload, signalling or not, in scalars and arrays", () => {
  for (const length of [1, 2, 3, 50]) {
    for (const word of [0x7f800001, 0xffbfffff, 0x7fc00000, 0x7fffffff]) {
      const data = new Float32Array(new Uint32Array(length).fill(word).buffer);
      const tensor = { dtype: "float32", shape: [length], data } as const;
      expect(bitsOf(decodeTensor(encodeTensor(tensor)))).toEqual(bitsOf(tensor));
    }
    for (const word of [0x7ff0000000000001n, 0xfff7ffffffffffffn, 0x7ff8000000000000n]) {
      const data = new Float64Array(new BigUint64Array(length).fill(word).buffer);
      const tensor = { dtype: "float64", shape: [length], data } as const;
      expect(bitsOf(decodeTensor(encodeTensor(tensor)))).toEqual(bitsOf(tensor));
    }
  }
});
