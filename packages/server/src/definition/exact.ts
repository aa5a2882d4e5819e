// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type DType,
  dtypes,
  type PackedTensor,
  type TensorSpec,
  toValue,
  unpackFor,
  type ValueOf,
} from "@dm-env-rpc/tensor-codec";

/**
 * Reads a value that people write: a number may have any numeric dtype that represents it exactly, because a JavaScript
 * number arrives as float64 and a Python int as int64, whatever the spec's dtype is. The shape is checked before any
 * number is converted.
 *
 * @throws TensorError if the value does not fit the spec.
 * @throws DmEnvRpcError INVALID_ARGUMENT naming a number that the dtype cannot represent exactly.
 */
export function exactValue<T extends TensorSpec>(
  packed: PackedTensor,
  spec: T,
  name: string,
): ValueOf<T> {
  // A single element fits any shape, and unpacking it would repeat it.
  if (packed.data.length > 1) {
    unpackFor(packed, { dtype: packed.dtype, shape: spec.shape }, name);
  }
  return toValue(unpackFor(exactly(packed, spec.dtype, name), spec, name), spec);
}

/** Converts numbers to another numeric dtype. Other values are returned unchanged. */
function exactly(packed: PackedTensor, dtype: DType, name: string): PackedTensor {
  if (packed.dtype === dtype) {
    return packed;
  }
  const [from, to] = [dtypes[packed.dtype], dtypes[dtype]];
  if (!isNumeric(from.kind) || !isNumeric(to.kind)) {
    return packed;
  }
  const elements = packed.data as ArrayLike<number | bigint>;
  const data = to.allocate(elements.length) as unknown as (number | bigint)[];
  for (let i = 0; i < elements.length; i++) {
    const element = elements[i] as number | bigint;
    const converted = to.kind === "bigint" ? toBigInt(element) : Number(element);
    if (converted === undefined) {
      throw inexact(name, dtype, packed.dtype, element);
    }
    data[i] = converted;
    if (!same(data[i] as number | bigint, element)) {
      throw inexact(name, dtype, packed.dtype, element);
    }
  }
  return { dtype, shape: packed.shape, data } as unknown as PackedTensor;
}

function inexact(
  name: string,
  wanted: DType,
  sent: DType,
  element: number | bigint,
): DmEnvRpcError {
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `"${name}": expected a number that ${wanted} can represent exactly, received ${element} (${sent}); send a number that fits`,
  );
}

function isNumeric(kind: string): boolean {
  return kind === "int" || kind === "bigint" || kind === "float";
}

function toBigInt(element: number | bigint): bigint | undefined {
  if (typeof element === "bigint") {
    return element;
  }
  return Number.isInteger(element) ? BigInt(element) : undefined;
}

function same(a: number | bigint, b: number | bigint): boolean {
  // Numbers and bigints compare by their mathematical values.
  // biome-ignore lint/suspicious/noDoubleEquals: `===` is never true between a number and a bigint
  return a == b || Object.is(a, b);
}
