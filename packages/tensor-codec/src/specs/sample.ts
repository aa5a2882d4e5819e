// SPDX-License-Identifier: Apache-2.0

import { type DType, dtypes, type TensorData } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { elementCount, type Tensor } from "../tensors/tensor.ts";
import { boundAt, exactBound } from "./bounds.ts";
import { legalActions } from "./legal-actions.ts";
import type { TensorSpec } from "./spec.ts";

/** A source of randomness: numbers uniform in [0, 1). */
export type Random = () => number;

/** Options of `sample` for variable dimensions and strings. */
export interface SampleOptions {
  /** Longest variable dimension and longest string. Default 8. */
  readonly maxLength?: number | undefined;
  /**
   * Mask over the values of a discrete action, from its `min` to its `max`: true for the values that may be drawn. At
   * least one element must be true. Default: all.
   */
  readonly legal?: Tensor<"bool"> | undefined;
}

/**
 * Draws a random tensor that a spec allows; the same random numbers give the same tensor.
 *
 * Elements with two bounds are uniform, both bounds included; an undeclared bound of an integer is its
 * dtype's. A float without bounds is normal (mean 0, deviation 1), and a float with one bound is exponential from
 * that bound (mean 1). Booleans are uniform, strings consist of lowercase letters, and protos are empty Anys. A
 * variable dimension and a string's length are uniform from 0 to `maxLength`. With `legal`, a discrete action is
 * uniform over the legal values.
 *
 * @throws TensorError if `legal` does not fit the spec, or nothing is legal.
 * @example
 * const move = sample(t.discrete(5), Math.random);
 */
export function sample<D extends DType, S extends readonly number[]>(
  spec: TensorSpec<D, S>,
  random: Random,
  options?: SampleOptions,
): Tensor<D>;
export function sample(spec: TensorSpec, random: Random, options: SampleOptions = {}): Tensor {
  const { maxLength = 8, legal } = options;
  const { dtype } = spec;
  if (legal !== undefined) {
    return sampleLegal(spec, random, legal);
  }
  const shape = spec.shape.map((size) => (size < 0 ? upTo(maxLength, random) : size));
  const info = dtypes[dtype];
  const data = info.allocate(elementCount(shape));
  if (info.kind === "proto") {
    return { dtype, shape, data } as Tensor;
  }
  const min = exactBound(dtype, spec.min as number | bigint | TensorData | undefined);
  const max = exactBound(dtype, spec.max as number | bigint | TensorData | undefined);
  for (let i = 0; i < data.length; i++) {
    const least = boundAt(min, i) ?? info.range?.min;
    const greatest = boundAt(max, i) ?? info.range?.max;
    (data as unknown[])[i] = draw(info.kind, least, greatest, random, maxLength);
  }
  return { dtype, shape, data } as Tensor;
}

function sampleLegal(spec: TensorSpec, random: Random, legal: Tensor<"bool">): Tensor {
  const { data } = legal;
  const [count] = legalActions(spec).shape;
  const indexes = [...data.keys()].filter((index) => data[index] !== 0);
  if (data.length !== count || indexes.length === 0) {
    throw new TensorError({
      reason: "value",
      expected: `a mask of ${count} values, at least one of them legal`,
      received: `${data.length} values, ${indexes.length} of them legal`,
    });
  }
  const value = indexes[upTo(indexes.length - 1, random)] as number;
  const info = dtypes[spec.dtype];
  const element =
    info.kind === "bigint" ? (spec.min as bigint) + BigInt(value) : Number(spec.min) + value;
  const sampled = info.allocate(1);
  (sampled as unknown[])[0] = element;
  return { dtype: spec.dtype, shape: [], data: sampled } as Tensor;
}

function draw(
  kind: "float" | "int" | "bigint" | "bool" | "string",
  min: unknown,
  max: unknown,
  random: Random,
  maxLength: number,
): unknown {
  switch (kind) {
    case "float":
      return drawFloat(min as number | undefined, max as number | undefined, random);
    case "int":
      return (min as number) + upTo((max as number) - (min as number), random);
    case "bigint":
      return drawBigInt(min as bigint, max as bigint, random);
    case "bool":
      return random() < 0.5 ? 0 : 1;
    case "string":
      return Array.from({ length: upTo(maxLength, random) }, () =>
        String.fromCharCode(97 + upTo(25, random)),
      ).join("");
  }
}

/** Draws an integer from 0 to `most`, both included. */
const upTo = (most: number, random: Random): number => Math.floor(random() * (most + 1));

function drawFloat(
  least: number | undefined,
  greatest: number | undefined,
  random: Random,
): number {
  const min = least ?? Number.NEGATIVE_INFINITY;
  const max = greatest ?? Number.POSITIVE_INFINITY;
  if (min === max) {
    return min;
  }
  if (Number.isFinite(min) && Number.isFinite(max)) {
    const at = random();
    // Not min + at * (max - min): the span of two doubles may be infinite.
    return Math.min(max, Math.max(min, min * (1 - at) + max * at));
  }
  if (Number.isFinite(min)) {
    return min - Math.log(1 - random());
  }
  if (Number.isFinite(max)) {
    return max + Math.log(1 - random());
  }
  // The Box-Muller transform; 1 - random() is never 0.
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

function drawBigInt(min: bigint, max: bigint, random: Random): bigint {
  const word = () => BigInt(Math.floor(random() * 2 ** 32));
  const draw96 = (word() << 64n) | (word() << 32n) | word();
  // A span is at most 2^64, so with 96 random bits probabilities differ by at most 2^-32.
  return min + ((draw96 * (max - min + 1n)) >> 96n);
}
