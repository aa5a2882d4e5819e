// SPDX-License-Identifier: Apache-2.0
import { type DType, elementTypes, type TensorData } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { elementText, scalarText } from "../errors/text.ts";
import type { TensorSpec } from "./spec.ts";

/** An element of a numeric dtype. A tensor never mixes numbers and bigints. */
type Ordered = number | bigint;

/** Returns the bound of one element; a scalar bound applies to every element. */
export function boundAt(
  bound: Ordered | TensorData | undefined,
  index: number,
): Ordered | undefined {
  return typeof bound === "object" ? (bound[index] as Ordered) : bound;
}

/** Returns a bound in the precision of a dtype's elements, so that a float32 is compared with a float32. */
export function exactBound(
  dtype: DType,
  bound: Ordered | TensorData | undefined,
): Ordered | TensorData | undefined {
  const { rounding } = elementTypes[dtype];
  return rounding !== undefined && typeof bound === "number" ? rounding.round(bound) : bound;
}

/**
 * Checks elements against the inclusive bounds of a spec. NaN is out of any bounds. A single element in
 * `data` stands for every element of `shape` and is checked against the bounds of each.
 *
 * @throws TensorError `bounds` that names the first element out of bounds.
 */
export function checkBounds(
  data: TensorData,
  shape: readonly number[],
  spec: TensorSpec,
  name: string | undefined,
): void {
  const min = spec.min as Ordered | TensorData | undefined;
  const max = spec.max as Ordered | TensorData | undefined;
  if (min === undefined && max === undefined) {
    return;
  }
  if (typeof min !== "object" && typeof max !== "object") {
    for (let i = 0; i < data.length; i++) {
      const value = data[i] as Ordered;
      if (!within(value, min, max)) {
        checkRounded(value, i, min, max, shape, spec, name);
      }
    }
    return;
  }
  const count = Math.max(
    data.length,
    typeof min === "object" ? min.length : 0,
    typeof max === "object" ? max.length : 0,
  );
  for (let i = 0; i < count; i++) {
    const value = data[data.length === 1 ? 0 : i] as Ordered;
    const least = boundAt(min, i);
    const greatest = boundAt(max, i);
    if (!within(value, least, greatest)) {
      checkRounded(value, i, least, greatest, shape, spec, name);
    }
  }
}

/**
 * Throws unless the element is within the bounds rounded to the dtype. An element within the exact bounds needs no such
 * check, because rounding preserves order.
 */
function checkRounded(
  value: Ordered,
  index: number,
  min: Ordered | undefined,
  max: Ordered | undefined,
  shape: readonly number[],
  { dtype }: TensorSpec,
  name: string | undefined,
): void {
  const least = exactBound(dtype, min) as Ordered | undefined;
  const greatest = exactBound(dtype, max) as Ordered | undefined;
  if (within(value, least, greatest)) {
    return;
  }
  throw outOfBounds(value, index, shape, least, greatest, name);
}

function within(value: Ordered, min: Ordered | undefined, max: Ordered | undefined): boolean {
  return (min === undefined || value >= min) && (max === undefined || value <= max);
}

function outOfBounds(
  value: Ordered,
  index: number,
  shape: readonly number[],
  min: Ordered | undefined,
  max: Ordered | undefined,
  name: string | undefined,
): TensorError {
  const range =
    min === undefined
      ? `at most ${scalarText(max as Ordered)}`
      : max === undefined
        ? `at least ${scalarText(min)}`
        : `from ${scalarText(min)} to ${scalarText(max)}`;
  return new TensorError({
    reason: "bounds",
    name,
    expected: `${elementText(index, shape)} ${range}`,
    received: scalarText(value),
  });
}
