// SPDX-License-Identifier: Apache-2.0
/** Random choices among all encodings that protobuf allows for a message. */
import { type DescField, ScalarType } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import { TensorSchema } from "@dm-env-rpc/protocol";
import fc from "fast-check";
import { type DType, dtypes, type TensorData } from "../src/dtypes/dtype.ts";
import type { PackedTensor } from "../src/tensors/tensor.ts";
import { type Bytes, delimited, group, memory, tag, varint, varintField } from "./protobuf.ts";

/** A source of decisions, such as fast-check's `gen()`. */
export interface Choices {
  boolean(): boolean;
  /** From 0 to `most`. */
  nat(most: number): number;
}

/** Creates choices from a stream of numbers, which fast-check can shrink. */
export const choices: fc.Arbitrary<Choices> = fc.infiniteStream(fc.nat(0xffff)).map((stream) => {
  const next = () => stream.next().value as number;
  return { boolean: () => next() % 2 === 1, nat: (most) => next() % (most + 1) };
});

/** Chooses the layout that ordinary encoders write. */
export const plain: Choices = { boolean: () => false, nat: () => 0 };

/** Encodes a Tensor message in a random layout. */
export function layTensor({ dtype, shape, data }: PackedTensor, choose: Choices): number[] {
  const payload = dtypes[dtype].dataType;
  const parts = layArray(dtype, data, choose).map((part) => delimited(payload, part));
  const shapeParts = layRepeated(
    15,
    0,
    shape.map((size) => varint(size)),
    choose,
  );
  const fields = shuffleTogether([parts, shapeParts], choose).flatMap((field) => [
    ...unknown(choose, 16),
    ...field,
  ]);
  const decoy = choose.nat(9) === 9 ? layDecoy(dtype, choose) : [];
  return [...decoy, ...fields, ...unknown(choose, 16)];
}

/** Encodes an array message in parts, whose concatenation is the message. */
function layArray(dtype: DType, data: TensorData, choose: Choices): number[][] {
  const parts: number[][] = [[]];
  for (const field of arrayFields(dtype, data, choose)) {
    if (choose.nat(7) === 7) {
      parts.push([]);
    }
    (parts.at(-1) as number[]).push(...unknown(choose, 2), ...field);
  }
  return parts;
}

/** Returns the protobuf type of a dtype's `array`; undefined for messages. */
function scalarOf(dtype: DType): ScalarType | undefined {
  const isPayload = ({ number }: DescField) => number === dtypes[dtype].dataType;
  return TensorSchema.fields.find(isPayload)?.message?.field["array"]?.scalar;
}

function arrayFields(dtype: DType, data: TensorData, choose: Choices): number[][] {
  const scalar = scalarOf(dtype);
  if (scalar === ScalarType.BYTES) {
    // A bytes field is not repeated: of several the last one counts.
    const decoys = choose.nat(5) === 5 ? [delimited(1, [1, 2, 3])] : [];
    const needed = data.length > 0 || decoys.length > 0 || choose.boolean();
    return needed ? [...decoys, delimited(1, memory(data as Uint8Array))] : [];
  }
  const elements = elementsOf(scalar, data, choose);
  if (scalar === undefined || scalar === ScalarType.STRING) {
    return elements.map((bytes) => delimited(1, bytes));
  }
  const wireType = scalar === ScalarType.FLOAT ? 5 : scalar === ScalarType.DOUBLE ? 1 : 0;
  return layRepeated(1, wireType, elements, choose);
}

/** Encodes a repeated number field: packed, in chunks, one by one, or mixed. */
export function layRepeated(
  field: number,
  wireType: number,
  elements: readonly Bytes[],
  choose: Choices,
): number[][] {
  const fields: number[][] = [];
  let chunk: number[] | undefined;
  const flush = () => {
    if (chunk !== undefined) {
      fields.push(delimited(field, chunk));
    }
    chunk = undefined;
  };
  for (const bytes of elements) {
    if (choose.nat(3) === 3) {
      flush();
      fields.push([...tag(field, wireType), ...bytes]);
    } else {
      if (choose.nat(5) === 5) {
        flush();
      }
      chunk = [...(chunk ?? []), ...bytes];
    }
    if (choose.nat(20) === 20) {
      flush();
      fields.push(delimited(field, [])); // an empty chunk
    }
  }
  flush();
  return fields;
}

/** Encodes each element without tag and length. */
function elementsOf(scalar: ScalarType | undefined, data: TensorData, choose: Choices): number[][] {
  if (data instanceof Float32Array || data instanceof Float64Array) {
    return Array.from(data, (_, i) => memory(data.subarray(i, i + 1)));
  }
  return Array.from<unknown, number[]>(data, (value) => {
    const padding = choose.nat(9) === 9 ? choose.nat(9) : 0;
    switch (scalar) {
      case ScalarType.STRING:
        return [...new TextEncoder().encode(value as string)];
      case undefined:
        return layAny(value as Any, choose);
      case ScalarType.BOOL: // Every nonzero varint is true, in up to 64 bits.
        return varint(value ? (choose.boolean() ? 1n : 2n ** BigInt(choose.nat(63))) : 0n, padding);
      case ScalarType.INT32:
      case ScalarType.UINT32: // Bits beyond 32 are cut off.
        return varint(
          BigInt.asUintN(64, BigInt(value as number)) ^ (BigInt(padding) << 40n),
          padding,
        );
      default:
        return varint(value as bigint, padding);
    }
  });
}

function layAny({ typeUrl, value }: Any, choose: Choices): number[] {
  return [
    ...(typeUrl === "" ? [] : delimited(1, [...new TextEncoder().encode(typeUrl)])),
    ...(value.length === 0 ? [] : delimited(2, [...value])),
    ...unknown(choose, 3),
  ];
}

/** Encodes a payload of another dtype, which the following payload replaces. */
function layDecoy(dtype: DType, choose: Choices): number[] {
  const other = dtype === "uint32" ? "int32" : "uint32";
  return [
    ...delimited(dtypes[other].dataType, delimited(1, varint(choose.nat(300)))),
    ...(choose.boolean() ? delimited(dtypes[dtype].dataType, delimited(1, [])) : []),
    ...delimited(dtypes[other].dataType, []),
  ];
}

/** Returns nothing or, one time in fifteen, an unknown field of any wire type. */
export function unknown(choose: Choices, from: number): number[] {
  if (choose.nat(14) !== 14) {
    return [];
  }
  const field = from + choose.nat(500);
  switch (choose.nat(4)) {
    case 0:
      return varintField(field, choose.nat(60000));
    case 1:
      return [...tag(field, 1), 1, 2, 3, 4, 5, 6, 7, 8];
    case 2:
      return [...tag(field, 5), 1, 2, 3, 4];
    case 3:
      return group(field, [...varintField(1, 1), ...group(2, delimited(3, [9, 9]))]);
    default:
      return delimited(field, [0xff, 0xff, 0xff]);
  }
}

/** Interleaves several sequences and keeps the order of each. */
export function shuffleTogether<T>(sequences: readonly (readonly T[])[], choose: Choices): T[] {
  const rest = sequences.map((sequence) => [...sequence]);
  const merged: T[] = [];
  for (;;) {
    const filled = rest.filter((sequence) => sequence.length > 0);
    if (filled.length === 0) {
      return merged;
    }
    merged.push((filled[choose.nat(filled.length - 1)] as T[]).shift() as T);
  }
}
