// SPDX-License-Identifier: Apache-2.0
import { type AnyElementType, type DType, elementTypes, type TensorData } from "../dtypes/dtype.ts";
import { tooManyElements } from "../errors/limits.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { shapeText, valueText } from "../errors/text.ts";
import type { Destination } from "./element-error.ts";
import { storeElements } from "./elements.ts";
import { elementCount } from "./tensor.ts";

/** Returns the shape of nested arrays, measured along their first elements, and the first scalar in them. */
export function measureNested(
  value: readonly unknown[],
  name?: string,
): {
  shape: number[];
  first: unknown;
} {
  const shape: number[] = [];
  let first: unknown = value;
  while (Array.isArray(first)) {
    if (shape.length === maxDepth) {
      throw new TensorError({
        reason: "shape",
        name,
        expected: `arrays at most ${maxDepth} deep`,
        received: "deeper ones",
      });
    }
    shape.push(first.length);
    first = first[0];
  }
  return { shape, first };
}

/**
 * Copies the elements of nested arrays of a known shape to flat data.
 *
 * @throws TensorError `ragged`, which names the index of the first array whose length differs from
 * its siblings'; or `value` or `dtype`, which name an element.
 */
export function flattenNested(
  value: readonly unknown[],
  dtype: DType,
  shape: readonly number[],
  maxElements: number,
  name: string | undefined,
): TensorData {
  const count = elementCount(shape);
  if (count > maxElements) {
    throw tooManyElements(count, maxElements, name);
  }
  const type = elementTypes[dtype];
  const data = type.allocate(count);
  fill(type, value, 0, 0, data, { dtype, shape, name });
  return data;
}

/** Maximum depth of nested arrays: deeper than any real tensor, and shallow enough for recursion. */
const maxDepth = 64;

function fill(
  type: AnyElementType,
  value: readonly unknown[],
  depth: number,
  at: number,
  data: TensorData,
  to: Destination,
): number {
  if (value.length !== to.shape[depth]) {
    throw ragged(value, depth, at, to);
  }
  if (depth === to.shape.length - 1) {
    for (let i = 0; i < value.length; i++) {
      if (Array.isArray(value[i])) {
        throw ragged(value[i], depth + 1, at + i, to);
      }
    }
    storeElements(type, data, at, value, to);
    return at + value.length;
  }
  for (const [i, row] of value.entries()) {
    if (!Array.isArray(row)) {
      throw ragged(row, depth + 1, at, to, i);
    }
    at = fill(type, row, depth + 1, at, data, to);
  }
  return at;
}

function ragged(
  value: unknown,
  depth: number,
  at: number,
  to: Destination,
  row?: number,
): TensorError {
  const index: number[] = [];
  let rest = at;
  for (let i = 0; i < depth; i++) {
    const size = elementCount(to.shape.slice(i + 1));
    index.push(size === 0 ? (row ?? 0) : Math.floor(rest / size));
    rest = size === 0 ? 0 : rest % size;
  }
  const expected =
    depth < to.shape.length ? `an array of ${to.shape[depth]}` : "a scalar, like its siblings,";
  return new TensorError({
    reason: "ragged",
    name: to.name,
    expected: `${expected} at index ${shapeText(index)}`,
    received: valueText(value),
    remedy: "rows must all have the same length",
  });
}
