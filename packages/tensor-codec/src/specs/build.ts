// SPDX-License-Identifier: Apache-2.0

import {
  type DType,
  type DTypeInfo,
  dtypes,
  isNumeric,
  type NumericDType,
} from "../dtypes/dtype.ts";
import { checkDefinition, exactBounds } from "./definition.ts";
import type { Bounds, Shape, TensorSpec } from "./spec.ts";

/**
 * Builds the spec of a numeric tensor: `t.int8({ min: 0, max: 4 })` is a scalar,
 * `t.uint8([11, 11, 3])` an array, `t.float32([-1])` has a variable dimension.
 */
export interface NumericBuilder<D extends NumericDType> {
  (bounds?: Bounds<D>): TensorSpec<D, readonly []>;
  <const S extends Shape>(shape: S, bounds?: Bounds<D>): TensorSpec<D, S>;
}

/** Builds the spec of a tensor whose elements have no order and therefore no bounds. */
export interface PlainBuilder<D extends DType> {
  (): TensorSpec<D, readonly []>;
  <const S extends Shape>(shape: S): TensorSpec<D, S>;
}

/** The integer types that `t.discrete` counts in. */
export type DiscreteDType = {
  [D in NumericDType]: DTypeInfo<D>["kind"] extends "float" ? never : D;
}[NumericDType];

/**
 * Builders of specs, one for each dtype; the type of a spec carries its dtype and shape.
 *
 * Bounds are inclusive: one scalar for all elements or, for a fixed shape, one for each element as a
 * typed array or nested arrays. A spec without bounds is sent without bounds; an integer spec with one
 * bound is sent with its dtype's bound as the other.
 *
 * @throws TensorError `spec`: two negative dimensions, a bound for each element of a variable-length spec,
 * min above max, and bounds that are NaN or beyond the dtype.
 * @example
 * const actions = { move: t.discrete(5), torque: t.float32([2], { min: -1, max: 1 }) };
 * const observations = { pixels: t.uint8([84, 84, 3]), path: t.int32([-1, 2]) };
 */
export const t: {
  readonly [D in NumericDType]: NumericBuilder<D>;
} & {
  readonly [D in Exclude<DType, NumericDType>]: PlainBuilder<D>;
} & {
  /** A scalar integer from 0 to `count - 1`, int32 unless another dtype is given. */
  discrete(count: number): TensorSpec<"int32", readonly []>;
  /** A scalar integer of another dtype, from 0 to `count - 1`. */
  discrete<D extends DiscreteDType>(count: number, dtype: D): TensorSpec<D, readonly []>;
} = {
  ...builders(),
  discrete: (count: number, dtype: DiscreteDType = "int32"): TensorSpec<never, readonly []> => {
    const wide = dtypes[dtype].kind === "bigint";
    // A fraction is passed on: `exactBounds` refuses it.
    const last = wide && Number.isInteger(count) ? BigInt(count) - 1n : count - 1;
    const bounds = { min: wide ? 0n : 0, max: last } as Bounds<DiscreteDType>;
    return define(dtype, [], bounds) as TensorSpec<never, readonly []>;
  },
};

function builders(): Omit<typeof t, "discrete"> {
  const all = Object.values(dtypes).map(
    ({ dtype }) => [dtype, isNumeric(dtype) ? numeric(dtype) : plain(dtype)] as const,
  );
  return Object.fromEntries(all) as Omit<typeof t, "discrete">;
}

function numeric<D extends NumericDType>(dtype: D): NumericBuilder<D> {
  return ((first?: Shape | Bounds<D>, second?: Bounds<D>) =>
    Array.isArray(first)
      ? define(dtype, first as Shape, second)
      : define(dtype, [], first as Bounds<D> | undefined)) as NumericBuilder<D>;
}

function plain<D extends DType>(dtype: D): PlainBuilder<D> {
  return ((shape: Shape = []) => define(dtype, shape, undefined)) as PlainBuilder<D>;
}

function define<D extends DType>(
  dtype: D,
  shape: Shape,
  bounds: Bounds<NumericDType> | undefined,
): TensorSpec {
  const spec = { dtype, shape: [...shape], ...exactBounds(dtype, shape, bounds) } as TensorSpec;
  checkDefinition(spec);
  return spec;
}
