// SPDX-License-Identifier: Apache-2.0
import { type DType, dtypes, type TensorData } from "./dtype.ts";
import { TensorError } from "./errors.ts";
import { elementText, valueText, withArticle } from "./text.ts";

/** Where elements come from and go to, for the error that names one of them. */
export interface Destination {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly name: string | undefined;
}

/** Most a finite float32 can be, and how far a double may lie beyond it and still round to it. */
const overflows = (value: number): boolean =>
  !Number.isFinite(Math.fround(value)) && Number.isFinite(value);

/**
 * Stores values as elements `at`, `at + 1`, … of `data`, each checked: no cast
 * loses anything, but that a number is rounded to float32 for a float32 tensor.
 *
 * @throws TensorError `value`, or `dtype` for a value of another kind, naming the element.
 */
export function storeElements(
  data: TensorData,
  at: number,
  values: ArrayLike<unknown>,
  to: Destination,
): void {
  const { dtype } = to;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (!isElement(dtype, value)) throw wrongElement(value, at + i, to);
    (data as unknown[])[at + i] = dtype === "bool" ? (value ? 1 : 0) : value;
  }
}

/** Whether a value can be an element of a dtype as it is. */
export function isElement(dtype: DType, value: unknown): boolean {
  switch (dtype) {
    case "float32":
      return typeof value === "number" && !overflows(value);
    case "float64":
      return typeof value === "number";
    case "int8":
    case "int32":
    case "uint8":
    case "uint32": {
      const { min, max } = dtypes[dtype].range as { min: number; max: number };
      return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max;
    }
    case "int64":
    case "uint64": {
      const { min, max } = dtypes[dtype].range as { min: bigint; max: bigint };
      return typeof value === "bigint" && value >= min && value <= max;
    }
    case "bool":
      return typeof value === "boolean";
    case "string":
      return typeof value === "string" && isWellFormed(value);
    case "proto":
      return isAny(value);
  }
}

/** Whether a value is a message of google.protobuf.Any. */
export function isAny(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    "$typeName" in value &&
    value.$typeName === "google.protobuf.Any"
  );
}

/** Whether a string has a UTF-8 encoding: a lone surrogate has none, and would become U+FFFD. */
function isWellFormed(value: string): boolean {
  return !/\p{Surrogate}/u.test(value);
}

/** The error of a value that cannot be an element; it says which one, and what to give instead. */
export function wrongElement(value: unknown, index: number, to: Destination): TensorError {
  const { dtype, shape, name } = to;
  const { kind, range } = dtypes[dtype];
  const fact = (reason: "dtype" | "value", expected: string, remedy?: string) =>
    new TensorError({
      reason,
      name,
      expected: `${expected} as ${elementText(index, shape)} of ${withArticle(dtype)} tensor`,
      received: valueText(value),
      remedy,
    });
  switch (kind) {
    case "float":
      return typeof value === "number"
        ? fact("value", "a number that float32 can hold", "use float64")
        : fact("dtype", "a number", typeof value === "bigint" ? "use Number(…)" : undefined);
    case "int":
      if (typeof value !== "number") {
        return fact("dtype", "a number", typeof value === "bigint" ? "use Number(…)" : undefined);
      }
      return Number.isInteger(value)
        ? fact("value", `a number from ${range?.min} to ${range?.max}`)
        : fact("value", "an integer", "round it first");
    case "bigint":
      if (typeof value === "bigint") {
        return fact("value", `a bigint from ${range?.min}n to ${range?.max}n`);
      }
      return fact(
        "dtype",
        "a bigint",
        Number.isInteger(value) ? `use ${BigInt(value as number)}n` : "use BigInt(…)",
      );
    case "bool":
      return fact("dtype", "true or false");
    case "string":
      return typeof value === "string"
        ? fact("value", "a string without lone surrogates", "use toWellFormed()")
        : fact("dtype", "a string");
    case "proto":
      return fact(
        "dtype",
        "a google.protobuf.Any",
        "pack the message with anyPack of @bufbuild/protobuf/wkt, or give pack a registry",
      );
  }
}

/**
 * Checks data that is already flat: a bool's bytes are 0 or 1, strings are well
 * formed, protos are Anys. The other typed arrays cannot hold anything wrong.
 */
export function checkData(data: TensorData, to: Destination): void {
  const { dtype } = to;
  if (dtype === "bool") {
    for (let i = 0; i < data.length; i++) {
      if ((data[i] as number) > 1) {
        throw new TensorError({
          reason: "value",
          name: to.name,
          expected: `0 or 1 as ${elementText(i, to.shape)} of a bool tensor`,
          received: `${data[i]}`,
        });
      }
    }
  } else if (dtype === "string" || dtype === "proto") {
    for (let i = 0; i < data.length; i++) {
      if (!isElement(dtype, data[i])) throw wrongElement(data[i], i, to);
    }
  }
}

/** A copy of the first element `count` times, bit for bit: NaNs keep their payload. */
export function repeatElement(data: TensorData, dtype: DType, count: number): TensorData {
  const { allocate, bytes } = dtypes[dtype];
  if (bytes === 0) return new Array(count).fill(data[0]);
  const result = allocate(count);
  bitsOf(result).fill(bitsOf(data)[0] as never);
  return result;
}

/** Whether all elements are the same, bit for bit. */
export function isUniform(data: TensorData): boolean {
  const bits = bitsOf(data);
  for (let i = 1; i < bits.length; i++) if (bits[i] !== bits[0]) return false;
  return true;
}

/** Typed data seen as integers of its width, so that comparing and copying touch no NaN. */
function bitsOf(data: TensorData): Exclude<TensorData, Float32Array | Float64Array> {
  if (data instanceof Float32Array) {
    return new Int32Array(data.buffer, data.byteOffset, data.length);
  }
  if (data instanceof Float64Array) {
    return new BigInt64Array(data.buffer, data.byteOffset, data.length);
  }
  return data;
}
