// SPDX-License-Identifier: Apache-2.0
import { type DType, dtypes, type TensorData } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { shapeText, valueText, withArticle } from "../errors/text.ts";

/** The largest dimension of a shape: a signed 32-bit integer on the wire. */
export const maxDimension = 2147483647;

/**
 * An n-dimensional array: `data` holds the elements flat, in row-major order, as many as the
 * product of `shape`. An empty shape is a scalar of one element.
 *
 * `data` may be a view of a buffer that something else owns; each function that returns a tensor
 * documents who owns its memory.
 *
 * A plain record: `Tensor` without a dtype is a union to narrow by `dtype`.
 */
export type Tensor<D extends DType = DType> = D extends DType
  ? {
      readonly dtype: D;
      readonly shape: readonly number[];
      readonly data: TensorData<D>;
      /** Never present. It lets the compiler refuse a PackedTensor where a Tensor is needed. */
      readonly packed?: never;
    }
  : never;

/**
 * A tensor as it travels (overview.md, "Tensors"): one dimension of `shape` may be negative, to be
 * inferred from the data, and one element in `data` may stand for all elements.
 *
 * Every Tensor is a PackedTensor; `unpack` turns a PackedTensor into a Tensor.
 */
export type PackedTensor<D extends DType = DType> = D extends DType
  ? {
      readonly dtype: D;
      readonly shape: readonly number[];
      readonly data: TensorData<D>;
      /** Never present; see `packed` of Tensor. */
      readonly packed?: true;
    }
  : never;

/**
 * A tensor whose payload was never set. A peer may send one; `unpack` refuses it.
 */
export interface UnsetTensor {
  readonly dtype: "unset";
  readonly shape: readonly number[];
  readonly data: readonly never[];
}

/** Returns the number of elements of a shape without a variable dimension. */
export function elementCount(shape: readonly number[]): number {
  let count = 1;
  for (let i = 0; i < shape.length; i++) {
    const size = shape[i] as number;
    if (size === 0) {
      return 0; // before the product can grow to Infinity, and Infinity * 0 to NaN
    }
    count *= size;
  }
  return count;
}

/** Returns true if a shape has a variable (negative) dimension. */
export function isVariable(shape: readonly number[]): boolean {
  for (let i = 0; i < shape.length; i++) {
    if ((shape[i] as number) < 0) {
      return true;
    }
  }
  return false;
}

/**
 * Creates a tensor. It borrows `data`: later changes of the array change the tensor.
 *
 * @throws TensorError `dtype` if the data does not hold elements of the dtype; `shape` if the shape has
 * a negative dimension or another number of elements than the data.
 * @example
 * const board = tensor("int8", [3, 3], new Int8Array(9));
 */
export function tensor<D extends DType>(
  dtype: D,
  shape: readonly number[],
  data: TensorData<D>,
): Tensor<D> {
  if (!dtypes[dtype].holds(data)) {
    throw new TensorError({
      reason: "dtype",
      expected: `the elements of ${withArticle(dtype)} tensor`,
      received: valueText(data),
    });
  }
  for (const size of shape) {
    if (Number.isInteger(size) && size >= 0 && size <= maxDimension) {
      continue;
    }
    throw new TensorError({
      reason: "shape",
      expected: "a shape of integers that are not negative",
      received: `shape ${shapeText(shape)}`,
    });
  }
  const count = elementCount(shape);
  if (count !== data.length) {
    throw new TensorError({
      reason: "shape",
      expected: `${count} elements for shape ${shapeText(shape)}`,
      received: `${data.length}`,
      remedy: "give as many elements as the product of the shape",
    });
  }
  return { dtype, shape, data } as Tensor<D>;
}
