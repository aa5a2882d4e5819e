// SPDX-License-Identifier: Apache-2.0
import type { DType, TensorData } from "./dtype.ts";
import { TensorError } from "./errors.ts";
import type { TensorSpec } from "./spec.ts";
import { elementText, scalarText } from "./text.ts";

/** Both numeric kinds; within one tensor they are never mixed. */
type Ordered = number | bigint;

/** The bound of one element: of a scalar bound every element has the same. */
export function boundAt(
  bound: Ordered | TensorData | undefined,
  index: number,
): Ordered | undefined {
  return typeof bound === "object" ? (bound[index] as Ordered) : bound;
}

/** A bound as the elements of a dtype are: a float32 is compared with what float32 makes of it. */
export function exactBound(
  dtype: DType,
  bound: Ordered | TensorData | undefined,
): Ordered | TensorData | undefined {
  return dtype === "float32" && typeof bound === "number" ? Math.fround(bound) : bound;
}

/**
 * Checks elements against the bounds of a spec, inclusive. NaN is in no bounds.
 * One element in `data` stands for all that `shape` has.
 *
 * @throws TensorError `bounds` that names the first element that is out.
 */
export function checkBounds(
  data: TensorData,
  shape: readonly number[],
  spec: TensorSpec,
  name: string | undefined,
): void {
  if (spec.min === undefined && spec.max === undefined) return;
  const min = exactBound(spec.dtype, spec.min as Ordered | TensorData | undefined);
  const max = exactBound(spec.dtype, spec.max as Ordered | TensorData | undefined);
  if (typeof min === "object" || typeof max === "object") {
    const count = Math.max(data.length, typeof min === "object" ? min.length : 0);
    const elements = Math.max(count, typeof max === "object" ? max.length : 0);
    for (let i = 0; i < elements; i++) {
      const value = data[data.length === 1 ? 0 : i] as Ordered;
      if (!within(value, boundAt(min, i), boundAt(max, i))) {
        throw outOfBounds(value, i, shape, boundAt(min, i), boundAt(max, i), name);
      }
    }
    return;
  }
  for (let i = 0; i < data.length; i++) {
    const value = data[i] as Ordered;
    if (!within(value, min, max)) throw outOfBounds(value, i, shape, min, max, name);
  }
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
