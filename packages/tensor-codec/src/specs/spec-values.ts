// SPDX-License-Identifier: Apache-2.0

import { type DType, dtypes, elementTypes, type TensorData } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { withArticle } from "../errors/text.ts";
import { checkData } from "../tensors/elements.ts";
import { checkShape, resolveShape, sameShape } from "../tensors/shape.ts";
import { elementCount, type PackedTensor, type Tensor } from "../tensors/tensor.ts";
import { boundAt, checkBounds, exactBound } from "./bounds.ts";
import type { TensorSpec } from "./spec.ts";

type Ordered = number | bigint;

/**
 * Checks a tensor against a spec: dtype, shape, elements and bounds.
 *
 * @throws TensorError naming `name` and, for a bound, the index of the first
 * element that is out of bounds.
 */
export function validate(tensor: Tensor, spec: TensorSpec, name?: string): void {
  if (tensor.dtype !== spec.dtype) {
    throw new TensorError({
      reason: "dtype",
      name,
      expected: `${withArticle(spec.dtype)} tensor`,
      received: `${withArticle(tensor.dtype)} tensor`,
      remedy: "nothing is cast: convert it first",
    });
  }
  const { dtype, shape, data } = tensor;
  checkShape(shape, spec.shape, name);
  resolveShape(shape, data.length, Number.POSITIVE_INFINITY, name);
  checkData(elementTypes[dtype], data, shape, name);
  checkBounds(data, shape, spec, name);
}

/**
 * Moves each element of a tensor to the nearest value within a spec's bounds; NaN stays NaN.
 *
 * @returns The same tensor if every element was within bounds, else a new one.
 */
export function clamp<D extends DType>(tensor: Tensor<D>, spec: TensorSpec): Tensor<D>;
export function clamp(tensor: Tensor, spec: TensorSpec): Tensor {
  const min = exactBound(spec.dtype, spec.min as Ordered | TensorData | undefined);
  const max = exactBound(spec.dtype, spec.max as Ordered | TensorData | undefined);
  if (min === undefined && max === undefined) {
    return tensor;
  }
  let data: TensorData | undefined;
  for (let i = 0; i < tensor.data.length; i++) {
    const value = tensor.data[i] as Ordered;
    const nearest = nearestTo(value, boundAt(min, i), boundAt(max, i));
    if (nearest === value || Number.isNaN(value)) {
      continue;
    }
    data ??= tensor.data.slice() as TensorData;
    data[i] = nearest as never;
  }
  return data === undefined ? tensor : ({ ...tensor, data } as Tensor);
}

/**
 * Creates a tensor of zeros, empty strings or empty Anys. If bounds exclude zero, the elements are the values within
 * bounds that are nearest to zero. A variable dimension is 0.
 *
 * @example
 * const { dtype, shape, data } = zeros(t.float32([2, 3]));
 */
export function zeros<D extends DType, S extends readonly number[]>(
  spec: TensorSpec<D, S>,
): Tensor<D>;
export function zeros(spec: TensorSpec): Tensor {
  const shape = spec.shape.map((size) => Math.max(size, 0));
  const data = dtypes[spec.dtype].allocate(elementCount(shape));
  return clamp({ dtype: spec.dtype, shape, data } as Tensor, spec);
}

/**
 * Returns true if two tensors have the same dtype, shape and elements. NaN equals NaN and 0 equals
 * -0; Anys are compared by type and bytes. Packed tensors are compared without unpacking: `unpack` them to
 * compare their elements.
 */
export function equals(a: PackedTensor, b: PackedTensor): boolean {
  if (a.dtype !== b.dtype || !sameShape(a.shape, b.shape)) {
    return false;
  }
  return sameElements(a.data, b.data);
}

/** Returns true if two specs have the same dtype, shape and bounds. */
export function equalSpecs(a: TensorSpec, b: TensorSpec): boolean {
  return (
    a.dtype === b.dtype &&
    sameShape(a.shape, b.shape) &&
    sameBound(a, b, "min") &&
    sameBound(a, b, "max")
  );
}

function sameBound(a: TensorSpec, b: TensorSpec, side: "min" | "max"): boolean {
  const one = exactBound(a.dtype, a[side] as Ordered | TensorData | undefined);
  const other = exactBound(b.dtype, b[side] as Ordered | TensorData | undefined);
  if (typeof one !== "object" || typeof other !== "object") {
    return one === other;
  }
  return sameElements(one, other);
}

function sameElements(a: TensorData, b: TensorData): boolean {
  if (a.length !== b.length) {
    return false;
  }
  for (let i = 0; i < a.length; i++) {
    const one = a[i];
    const other = b[i];
    if (one === other || (Number.isNaN(one) && Number.isNaN(other))) {
      continue;
    }
    if (typeof one !== "object" || typeof other !== "object") {
      return false;
    }
    if (one.typeUrl !== other.typeUrl || !sameElements(one.value, other.value)) {
      return false;
    }
  }
  return true;
}

function nearestTo(value: Ordered, min: Ordered | undefined, max: Ordered | undefined): Ordered {
  if (min !== undefined && value < min) {
    return min;
  }
  if (max !== undefined && value > max) {
    return max;
  }
  return value;
}
