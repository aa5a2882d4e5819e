// SPDX-License-Identifier: Apache-2.0
import { dtypes, type TensorData } from "../../dtypes/dtype.ts";
import { tooManyDimensions } from "../../errors/limits.ts";
import type { PackedTensor, UnsetTensor } from "../../tensors/tensor.ts";
import { type EncodedType, typeOfField } from "../encodings/table.ts";
import { concatenate, type Ranges } from "../primitives/ranges.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import { objectWork, type Reader } from "../primitives/reader.ts";
import { lengthDelimitedType, shapeField, varintType } from "../primitives/wire-type.ts";
import { readArray } from "./array-reader.ts";

const noElements: readonly never[] = Object.freeze([]);

/** This many bytes that a broadcast allocates cost 1, so that a message allocates at most 64 MiB by default. */
const broadcastBytes = 256;

/** Bytes of an element that is a reference: a string or an Any. */
const referenceBytes = 8;

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
  // Parts of the same payload are merged; if payloads differ in dtype, the last one wins. The others are read, too, so
  // that the work of a payload does not depend on what follows it.
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
        if (field > 0) {
          reader.spend(objectWork);
          if (parts === undefined) {
            const at = reader.pos;
            readPart(reader, field, start, stop, options);
            reader.pos = at;
            reader.end = end;
          } else {
            readParts(reader, field, parts, options);
          }
        }
        parts = undefined;
        field = number;
        start = reader.pos;
        stop = partStop;
      }
      reader.pos = partStop;
    } else if (tag === ((shapeField << 3) | lengthDelimitedType)) {
      const shapeStop = reader.delimited();
      reader.spend(1);
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
    const data = readParts(reader, field, parts, options);
    return { dtype: type.dtype, shape, data } as PackedTensor;
  }
  reader.notes.arrays.push(start, stop);
  const data = readPart(reader, field, start, stop, options);
  reader.pos = reader.end = end;
  return { dtype: type.dtype, shape, data } as PackedTensor;
}

/** Reads a payload from `start` to `stop`, and leaves the reader there. */
function readPart(
  reader: Reader,
  field: number,
  start: number,
  stop: number,
  options: ReadOptions,
): TensorData {
  reader.pos = start;
  reader.end = stop;
  return readArray(reader, typeOfField[field] as EncodedType, options);
}

/** Reads a payload of several parts. */
function readParts(reader: Reader, field: number, parts: Ranges, options: ReadOptions): TensorData {
  const type = typeOfField[field] as EncodedType;
  const whole = concatenate(reader.source, parts);
  return reader.within(whole, 0, whole.length, () =>
    readArray(reader, type, { ...options, copy: false }),
  );
}

/** Spends the work of filling the shape with a single element, which `unpack` does later. */
export function spendBroadcast(
  reader: Reader,
  { dtype, shape, data }: PackedTensor | UnsetTensor,
  { maxElements }: ReadOptions,
): void {
  if (dtype === "unset" || data.length !== 1 || shape.length === 0) {
    return;
  }
  let count = 1;
  for (let i = 0; i < shape.length; i++) {
    const size = shape[i] as number;
    count *= size < 0 ? 1 : size; // A variable dimension becomes 1.
  }
  // `unpack` refuses a larger tensor before it allocates memory.
  if (count <= maxElements) {
    reader.spend(Math.floor((count * (dtypes[dtype].bytes || referenceBytes)) / broadcastBytes));
  }
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
