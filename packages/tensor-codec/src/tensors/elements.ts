// SPDX-License-Identifier: Apache-2.0
import { type AnyElementType, type DType, elementTypes, type TensorData } from "../dtypes/dtype.ts";
import type { Rounding } from "../dtypes/element-type.ts";
import type { TensorError } from "../errors/tensor-error.ts";
import { type Destination, elementError, loneSurrogate } from "./element-error.ts";

/**
 * Stores values as elements `at`, `at + 1`, … of `data` and checks each. Nothing is cast, except that a
 * number is rounded to float32 for a float32 tensor.
 *
 * @throws TensorError `value`, or `dtype` for a value of another kind, naming the element.
 */
export function storeElements(
  type: AnyElementType,
  data: TensorData,
  at: number,
  values: ArrayLike<unknown>,
  to: Destination,
): void {
  const { kind, rounding } = type;
  const overflow = kind === "float" ? (rounding?.overflow ?? Number.POSITIVE_INFINITY) : 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    // The common case for floats; isElement decides the rest.
    const plain = typeof value === "number" && value < overflow && value > -overflow;
    if (!plain && !isElement(type, value)) {
      throw wrongElement(value, at + i, to);
    }
    (data as unknown[])[at + i] = kind === "bool" ? (value ? 1 : 0) : value;
  }
}

/** Returns true if a value can be an element of a dtype without a cast. */
export function isElement({ kind, range, rounding }: AnyElementType, value: unknown): boolean {
  switch (kind) {
    case "float":
      return typeof value === "number" && (rounding === undefined || fits(value, rounding));
    case "int": {
      const { min, max } = range as { min: number; max: number };
      return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max;
    }
    case "bigint": {
      const { min, max } = range as { min: bigint; max: bigint };
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

/** Returns true unless rounding the number overflows. */
const fits = (value: number, { overflow }: Rounding): boolean =>
  (value < overflow && value > -overflow) || !Number.isFinite(value);

/** Returns true for a google.protobuf.Any. */
export function isAny(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    "$typeName" in value &&
    value.$typeName === "google.protobuf.Any"
  );
}

/** Returns true if a string has a UTF-8 encoding; a lone surrogate would become U+FFFD. */
function isWellFormed(value: string): boolean {
  return !/\p{Surrogate}/u.test(value);
}

/** Creates the error for a value that cannot be an element, with its index and a remedy. */
export function wrongElement(value: unknown, index: number, to: Destination): TensorError {
  const { kind, range } = elementTypes[to.dtype];
  const fact = (reason: "dtype" | "value", expected: string, remedy?: string) =>
    elementError(reason, expected, value, index, to, remedy);
  switch (kind) {
    case "float":
      return typeof value === "number"
        ? fact("value", `a number that ${to.dtype} can hold`, "use float64")
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
        ? loneSurrogate("a string", value, index, to)
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
 * Checks flat data: the bytes of bools are 0 or 1, strings are well-formed, protos are Anys. Other typed
 * arrays hold only valid elements.
 */
export function checkData(
  type: AnyElementType,
  data: TensorData,
  shape: readonly number[],
  name: string | undefined,
): void {
  const { dtype, kind } = type;
  switch (kind) {
    case "float":
    case "int":
    case "bigint":
      return;
    case "bool":
      for (let i = 0; i < data.length; i++) {
        if ((data[i] as number) <= 1) {
          continue;
        }
        throw elementError("value", "0 or 1", data[i], i, { dtype, shape, name });
      }
      return;
    case "string":
    case "proto":
      for (let i = 0; i < data.length; i++) {
        if (!isElement(type, data[i])) {
          throw wrongElement(data[i], i, { dtype, shape, name });
        }
      }
      return;
    default:
      kind satisfies never;
  }
}

/** Repeats the first element `count` times, bit for bit: NaNs keep their payload. */
export function repeatElement(data: TensorData, dtype: DType, count: number): TensorData {
  const { allocate } = elementTypes[dtype];
  if (Array.isArray(data)) {
    return new Array(count).fill(data[0]);
  }
  const result = allocate(count);
  bitsOf(result).fill(bitsOf(data)[0] as never);
  return result;
}

/** Returns true if all elements are the same, bit for bit. */
export function isUniform(data: TensorData): boolean {
  const bits = bitsOf(data);
  for (let i = 1; i < bits.length; i++) {
    if (bits[i] !== bits[0]) {
      return false;
    }
  }
  return true;
}

/** Views typed data as integers of its width, so that comparing and copying preserve NaNs. */
function bitsOf(data: TensorData) {
  if (Array.isArray(data)) {
    return data;
  }
  const { buffer, byteOffset, length } = data;
  switch (data.BYTES_PER_ELEMENT) {
    case 1:
      return new Uint8Array(buffer, byteOffset, length);
    case 2:
      return new Uint16Array(buffer, byteOffset, length);
    case 4:
      return new Uint32Array(buffer, byteOffset, length);
    default: // no typed array has wider elements
      return new BigUint64Array(buffer, byteOffset, length);
  }
}
