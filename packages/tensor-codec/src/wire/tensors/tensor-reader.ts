// SPDX-License-Identifier: Apache-2.0
import { tooManyDimensions } from "../../errors/limits.ts";
import type { PackedTensor, UnsetTensor } from "../../tensors/tensor.ts";
import { typeOfField } from "../encodings/table.ts";
import { concatenate, type Ranges } from "../primitives/ranges.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import { lengthDelimitedType, shapeField, varintType } from "../primitives/wire-type.ts";
import { readArray } from "./array-reader.ts";

const noElements: readonly never[] = Object.freeze([]);

/** The tensor of an entry without a payload. */
export const emptyTensor: UnsetTensor = Object.freeze({
  dtype: "unset",
  shape: noElements,
  data: noElements,
});

/** Reads a Tensor from the reader's position to its end. */
export function readTensor(reader: Reader, options: ReadOptions): PackedTensor | UnsetTensor {
  const { end } = reader;
  const shape: number[] = [];
  let field = 0;
  let start = 0;
  let stop = 0;
  // Parts of the same payload are merged; if payloads differ in dtype, the last one wins.
  let parts: Ranges | undefined;
  while (reader.pos < end) {
    const tag = reader.tag();
    const number = tag >>> 3;
    if ((tag & 7) === lengthDelimitedType && typeOfField[number] !== undefined) {
      const partStop = reader.delimited();
      reader.spend(1);
      if (number === field) {
        parts ??= [start, stop];
        parts.push(reader.pos, partStop);
      } else {
        parts = undefined;
        field = number;
        start = reader.pos;
        stop = partStop;
      }
      reader.pos = partStop;
    } else if (tag === ((shapeField << 3) | lengthDelimitedType)) {
      const shapeStop = reader.delimited();
      reader.end = shapeStop;
      while (reader.pos < shapeStop) {
        readDimension(reader, shape, options);
      }
      reader.end = end;
    } else if (tag === ((shapeField << 3) | varintType)) {
      readDimension(reader, shape, options);
    } else {
      reader.skip(tag);
    }
  }
  const type = typeOfField[field];
  if (type === undefined) {
    reader.notes.regular = false;
    return { dtype: "unset", shape, data: noElements };
  }
  if (parts !== undefined) {
    reader.notes.regular = false;
    const whole = concatenate(reader.source, parts);
    const data = reader.within(whole, 0, whole.length, () =>
      readArray(reader, type, { ...options, copy: false }),
    );
    return { dtype: type.dtype, shape, data } as PackedTensor;
  }
  reader.notes.arrays.push(start, stop);
  reader.pos = start;
  reader.end = stop;
  const data = readArray(reader, type, options);
  reader.pos = reader.end = end;
  return { dtype: type.dtype, shape, data } as PackedTensor;
}

function readDimension(reader: Reader, shape: number[], { maxDimensions }: ReadOptions): void {
  if (shape.length === maxDimensions) {
    throw tooManyDimensions(maxDimensions);
  }
  reader.spend(1);
  shape.push(reader.int32());
}

/** Reads a Tensor split into several parts, which protobuf merges. */
export function readMergedTensor(
  reader: Reader,
  parts: Ranges,
  options: ReadOptions,
): PackedTensor | UnsetTensor {
  const whole = concatenate(reader.source, parts);
  return reader.within(whole, 0, whole.length, () =>
    readTensor(reader, { ...options, copy: false }),
  );
}
