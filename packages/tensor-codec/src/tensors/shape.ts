// SPDX-License-Identifier: Apache-2.0

import { tooManyElements } from "../errors/limits.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { shapeText } from "../errors/text.ts";
import { elementCount } from "./tensor.ts";

/**
 * Resolves a packed tensor's shape for its number of elements (overview.md, "Tensors"): infers the variable
 * dimension. One element fills any shape, and makes a variable dimension 1. Allocates no memory for
 * elements, and returns the same array if there is nothing to infer.
 *
 * @throws TensorError `shape` or, above `maxElements`, `limit`.
 */
export function resolveShape(
  shape: readonly number[],
  length: number,
  maxElements: number,
  name: string | undefined,
): readonly number[] {
  const variable = variableDimension(shape, name);
  if (variable < 0) {
    const count = elementCount(shape);
    if (count === length) {
      if (count > maxElements) {
        throw tooManyElements(count, maxElements, name);
      }
      return shape;
    }
    if (length !== 1 || count === 0) {
      throw wrongCount(shape, count, length, name);
    }
    if (count > maxElements) {
      throw tooManyElements(count, maxElements, name);
    }
    return shape;
  }
  const others = shape.filter((_, dimension) => dimension !== variable);
  const known = elementCount(others);
  const inferred = length === 1 ? 1 : known === 0 ? 0 : length / known;
  if (!Number.isInteger(inferred) || (known === 0 && length > 0)) {
    throw new TensorError({
      reason: "shape",
      name,
      expected: `a multiple of ${known} elements for shape ${shapeText(shape)}`,
      received: `${length}`,
    });
  }
  if (known * inferred > maxElements) {
    throw tooManyElements(known * inferred, maxElements, name);
  }
  return shape.map((size, dimension) => (dimension === variable ? inferred : size));
}

/** Returns the index of a shape's variable dimension, or -1. */
function variableDimension(shape: readonly number[], name?: string): number {
  let variable = -1;
  for (let i = 0; i < shape.length; i++) {
    if ((shape[i] as number) >= 0) {
      continue;
    }
    if (variable >= 0) {
      throw new TensorError({
        reason: "shape",
        name,
        expected: "at most one variable (negative) dimension",
        received: `shape ${shapeText(shape)}`,
      });
    }
    variable = i;
  }
  return variable;
}

/**
 * Checks a resolved shape against a spec's, whose variable dimension accepts any size.
 *
 * @throws TensorError `shape` that names both.
 */
export function checkShape(
  shape: readonly number[],
  expected: readonly number[],
  name: string | undefined,
): void {
  let fits = shape.length === expected.length;
  for (let i = 0; fits && i < shape.length; i++) {
    const size = expected[i] as number;
    fits = size < 0 || size === shape[i];
  }
  if (!fits) {
    throw new TensorError({
      reason: "shape",
      name,
      expected: `shape ${shapeText(expected)}`,
      received: `shape ${shapeText(shape)}`,
      remedy:
        shape.length === expected.length
          ? undefined
          : `give ${expected.length === 0 ? "a scalar" : `${expected.length} ${expected.length === 1 ? "dimension" : "dimensions"}`}`,
    });
  }
}

/** Returns true if two shapes are the same, dimension by dimension. */
export function sameShape(a: readonly number[], b: readonly number[]): boolean {
  if (a === b) {
    return true;
  }
  if (a.length !== b.length) {
    return false;
  }
  for (let i = 0; i < a.length; i++) {
    if (a[i] !== b[i]) {
      return false;
    }
  }
  return true;
}

function wrongCount(
  shape: readonly number[],
  count: number,
  length: number,
  name: string | undefined,
): TensorError {
  return new TensorError({
    reason: "shape",
    name,
    expected:
      shape.length === 0
        ? "one element for a scalar"
        : `${count}${count > 1 ? " elements (or one for all of them)" : " elements"} for shape ${shapeText(shape)}`,
    received: `${length}`,
  });
}
