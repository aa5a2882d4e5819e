// SPDX-License-Identifier: Apache-2.0

import {
  type DType,
  dtypes,
  elementTypes,
  isNumeric,
  type NumericDType,
  type TensorData,
} from "../dtypes/dtype.ts";
import { defaultMaxElements } from "../errors/limits.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { elementText, scalarText, shapeText, valueText, withArticle } from "../errors/text.ts";
import { isElement, isUniform, wrongElement } from "../tensors/elements.ts";
import { flattenNested, measureNested } from "../tensors/nested-array.ts";
import { checkShape } from "../tensors/shape.ts";
import { elementCount, isVariable, maxDimension } from "../tensors/tensor.ts";
import { boundAt, exactBound } from "./bounds.ts";
import type { Bounds, TensorSpec } from "./spec.ts";

type Ordered = number | bigint;
type AnyBound = Ordered | TensorData | undefined;

/**
 * Converts bounds to the form that specs store: a scalar, or a new typed array with one bound per element. Bounds of a
 * float32 spec are rounded to float32. An absent bound stays absent.
 */
export function exactBounds(
  dtype: DType,
  shape: readonly number[],
  bounds: Bounds<NumericDType> | undefined,
): { min?: Ordered | TensorData | undefined; max?: Ordered | TensorData | undefined } {
  const min = exact(dtype, shape, bounds?.min, "min");
  const max = exact(dtype, shape, bounds?.max, "max");
  return { ...(min !== undefined && { min }), ...(max !== undefined && { max }) };
}

/**
 * Checks the shape and the bounds of a spec (behaviour 16).
 *
 * @throws TensorError `spec`.
 */
export function checkDefinition(spec: TensorSpec, name?: string): void {
  checkDimensions(spec.shape, name);
  const { dtype, shape } = spec;
  const min = spec.min as AnyBound;
  const max = spec.max as AnyBound;
  if (min === undefined && max === undefined) {
    return;
  }
  if (!isNumeric(dtype)) {
    throw refuse(
      name,
      `no bounds on ${withArticle(dtype)} spec`,
      "bounds",
      "leave min and max out",
    );
  }
  checkBoundCount(min, shape, "min", name);
  checkBoundCount(max, shape, "max", name);
  checkOrder(min, max, shape, name);
}

function exact(
  dtype: DType,
  shape: readonly number[],
  bound: unknown,
  side: "min" | "max",
): Ordered | TensorData | undefined {
  if (bound === undefined) {
    return undefined;
  }
  const type = elementTypes[dtype];
  const one = (value: unknown): Ordered => {
    if (!isElement(type, value) || Number.isNaN(value)) {
      const { expected, received } = wrongElement(value, 0, { dtype, shape: [], name: undefined });
      throw refuse(
        undefined,
        `${expected.split(" as ")[0]} as ${side} of ${withArticle(dtype)} spec`,
        received,
      );
    }
    return exactBound(dtype, value as Ordered) as Ordered;
  };
  if (typeof bound !== "object" || bound === null) {
    return one(bound);
  }
  let data: TensorData;
  if (dtypes[dtype].holds(bound)) {
    data = bound.slice() as TensorData;
  } else if (Array.isArray(bound)) {
    const measured = measureNested(bound);
    if (elementCount(measured.shape) !== 1) {
      checkShape(measured.shape, shape, side);
    }
    data = flattenNested(bound, dtype, measured.shape, defaultMaxElements, side);
  } else {
    throw refuse(undefined, `${withArticle(dtype)} scalar or array as ${side}`, valueText(bound));
  }
  if (data.length === 1) {
    return one(data[0]);
  }
  checkBoundCount(data, shape, side, undefined);
  for (const value of data) {
    one(value);
  }
  return data.length > 1 && isUniform(data) ? one(data[0]) : data;
}

function checkBoundCount(
  bound: AnyBound,
  shape: readonly number[],
  side: "min" | "max",
  name: string | undefined,
): void {
  if (typeof bound !== "object") {
    return;
  }
  const variable = isVariable(shape);
  if (!variable && bound.length === elementCount(shape)) {
    return;
  }
  throw refuse(
    name,
    `one ${side} for all elements ${variable ? "of" : `or ${elementCount(shape)} for`} shape ${shapeText(shape)}`,
    `${bound.length}`,
    variable ? "give a scalar: the number of elements varies" : undefined,
  );
}

function checkOrder(
  min: AnyBound,
  max: AnyBound,
  shape: readonly number[],
  name: string | undefined,
): void {
  if (min === undefined || max === undefined) {
    return;
  }
  const arrays = [min, max].filter((bound) => typeof bound === "object");
  const count = arrays.length === 0 ? 1 : Math.max(...arrays.map((bound) => bound.length));
  for (let i = 0; i < count; i++) {
    const least = boundAt(min, i) as Ordered;
    const greatest = boundAt(max, i) as Ordered;
    if (least > greatest) {
      throw refuse(
        name,
        "min at most max",
        `${scalarText(least)} and ${scalarText(greatest)}${arrays.length > 0 ? ` for ${elementText(i, shape)}` : ""}`,
      );
    }
  }
}

function checkDimensions(shape: readonly number[], name: string | undefined): void {
  const sizes = shape.every((size) => Number.isInteger(size) && Math.abs(size) <= maxDimension);
  if (!sizes || shape.filter((size) => size < 0).length > 1) {
    throw refuse(
      name,
      sizes ? "at most one variable (negative) dimension" : "a shape of 32-bit integers",
      `shape ${shapeText(shape)}`,
    );
  }
}

function refuse(
  name: string | undefined,
  expected: string,
  received: string,
  remedy?: string,
): TensorError {
  return new TensorError({ reason: "spec", name, expected, received, remedy });
}
