// SPDX-License-Identifier: Apache-2.0

import {
  type DType,
  dtypes,
  isNumeric,
  type NumericDType,
  type TensorData,
} from "../dtypes/dtype.ts";
import { checkDefinition, exactBounds } from "./definition.ts";
import { isTensorSpec, setOwn } from "./names.ts";
import type { Bounds, Specs, TensorSpec } from "./spec.ts";

/** An array without bounds: dm_env's `specs.Array`. */
export interface ArraySpec {
  readonly kind: "array";
  readonly name: string;
  readonly dtype: Exclude<DType, "string">;
  readonly shape: readonly number[];
}

/** An array with bounds, inclusive: dm_env's `specs.BoundedArray`. */
export interface BoundedArraySpec {
  readonly kind: "boundedArray";
  readonly name: string;
  readonly dtype: NumericDType;
  readonly shape: readonly number[];
  /** One bound for all elements, or one per element. An undeclared bound is the dtype's. */
  readonly minimum: number | bigint | TensorData<NumericDType>;
  readonly maximum: number | bigint | TensorData<NumericDType>;
}

/** A scalar integer from 0 to `numValues - 1`: dm_env's `specs.DiscreteArray`. */
export interface DiscreteArraySpec {
  readonly kind: "discreteArray";
  readonly name: string;
  readonly dtype: NumericDType;
  readonly shape: readonly [];
  readonly numValues: number | bigint;
}

/** An array of strings: dm_env's `specs.StringArray`. */
export interface StringArraySpec {
  readonly kind: "stringArray";
  readonly name: string;
  readonly dtype: "string";
  readonly shape: readonly number[];
}

/** A spec of dm_env, discriminated by `kind`. */
export type DmEnvSpec = ArraySpec | BoundedArraySpec | DiscreteArraySpec | StringArraySpec;

/** dm_env specs, nested like the values that they describe. */
export interface DmEnvSpecs {
  [name: string]: DmEnvSpec | DmEnvSpecs;
}

/**
 * Converts a tensor spec to its dm_env spec (behaviour 51), by the rules of the official
 * client: a scalar integer from 0 to a declared maximum is discrete, other bounds make a
 * bounded array, strings a string array, and the rest an array.
 */
export function toDmEnvSpec(name: string, spec: TensorSpec): DmEnvSpec {
  const { dtype, shape } = spec;
  const { kind, range } = dtypes[dtype];
  if (dtype === "string") {
    return { kind: "stringArray", name, dtype, shape };
  }
  if (!isNumeric(dtype) || (spec.min === undefined && spec.max === undefined)) {
    return { kind: "array", name, dtype, shape };
  }
  const minimum = (spec.min ??
    range?.min ??
    Number.NEGATIVE_INFINITY) as BoundedArraySpec["minimum"];
  const maximum = (spec.max ??
    range?.max ??
    Number.POSITIVE_INFINITY) as BoundedArraySpec["maximum"];
  const zero = minimum === 0 || minimum === 0n;
  if (kind !== "float" && shape.length === 0 && zero && spec.max !== undefined) {
    const numValues = typeof maximum === "bigint" ? maximum + 1n : (maximum as number) + 1;
    return { kind: "discreteArray", name, dtype, shape: [], numValues };
  }
  return { kind: "boundedArray", name, dtype, shape, minimum, maximum };
}

/**
 * Converts a dm_env spec to its tensor spec. Bounds that exclude nothing, such as the dtype's own or infinite
 * bounds, are left out.
 *
 * @throws TensorError `spec`, as the builders do.
 */
export function fromDmEnvSpec(spec: DmEnvSpec): TensorSpec {
  const { dtype, shape } = spec;
  const made = { dtype, shape: [...shape], ...boundsOf(spec) } as TensorSpec;
  checkDefinition(made, spec.name);
  return made;
}

/** Converts nested specs to dm_env specs of the same structure; their names are full, joined with `.`. */
export function toDmEnvSpecs(specs: Specs): DmEnvSpecs {
  const convert = (record: Specs, prefix: string): DmEnvSpecs => {
    const converted: DmEnvSpecs = {};
    for (const [key, value] of Object.entries(record)) {
      const name = prefix + key;
      setOwn(
        converted,
        key,
        isTensorSpec(value) ? toDmEnvSpec(name, value) : convert(value, `${name}.`),
      );
    }
    return converted;
  };
  return convert(specs, "");
}

function boundsOf(spec: DmEnvSpec): { min?: unknown; max?: unknown } {
  const { dtype, shape } = spec;
  const { range, kind } = dtypes[dtype];
  if (spec.kind === "discreteArray") {
    const last = typeof spec.numValues === "bigint" ? spec.numValues - 1n : spec.numValues - 1;
    return exactBounds(dtype, shape, { min: kind === "bigint" ? 0n : 0, max: last } as AnyBounds);
  }
  if (spec.kind !== "boundedArray") {
    return {};
  }
  const { minimum, maximum } = spec;
  const open = (bound: unknown, end: unknown, infinity: number) =>
    bound === end || bound === infinity;
  const unboundedBelow = open(minimum, range?.min, Number.NEGATIVE_INFINITY);
  const unboundedAbove = open(maximum, range?.max, Number.POSITIVE_INFINITY);
  return exactBounds(dtype, shape, {
    ...(!unboundedBelow && { min: minimum }),
    ...(!unboundedAbove && { max: maximum }),
  } as AnyBounds);
}

type AnyBounds = Bounds<NumericDType>;
