// SPDX-License-Identifier: Apache-2.0
import {
  type DoubleRangeFilter,
  DoubleRangeFilter_Exclude as Exclude,
  type Pool,
} from "@dm-env-rpc/protocol/matchmaker";
import { invalid } from "./errors.ts";
import type { SearchFields } from "./model.ts";

/** Whether a ticket is in a pool. */
export type PoolFilter = (search: SearchFields) => boolean;

/** Makes the test of a pool: a ticket must pass all of its filters. A field that a ticket lacks passes none. */
export function poolFilter(pool: Pool): PoolFilter {
  const tests: readonly PoolFilter[] = [
    ...pool.doubleRangeFilters.map(rangeFilter),
    ...pool.stringEqualsFilters.map(
      ({ stringArg, value }): PoolFilter =>
        ({ strings }) =>
          Object.hasOwn(strings, stringArg) && strings[stringArg] === value,
    ),
    ...pool.tagPresentFilters.map(
      ({ tag }): PoolFilter =>
        ({ tags }) =>
          tags.includes(tag),
    ),
  ];
  return (search) => tests.every((test) => test(search));
}

function rangeFilter({
  doubleArg,
  min = Number.NEGATIVE_INFINITY,
  max = Number.POSITIVE_INFINITY,
  exclude,
}: DoubleRangeFilter): PoolFilter {
  const openBelow = exclude === Exclude.MIN || exclude === Exclude.BOTH;
  const openAbove = exclude === Exclude.MAX || exclude === Exclude.BOTH;
  return ({ doubles }) => {
    if (!Object.hasOwn(doubles, doubleArg)) {
      return false;
    }
    const value = doubles[doubleArg] ?? Number.NaN;
    return (openBelow ? value > min : value >= min) && (openAbove ? value < max : value <= max);
  };
}

/**
 * Looks for filters that no ticket can pass.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT naming the pool and the filter.
 */
export function checkPool(pool: Pool): void {
  const where = `pool "${pool.name}"`;
  for (const { doubleArg, min, max, exclude } of pool.doubleRangeFilters) {
    if (doubleArg === "") {
      throw invalid(`${where}: double_arg`, "the name of a double", "none");
    }
    for (const [name, bound] of Object.entries({ min, max })) {
      if (bound !== undefined && Number.isNaN(bound)) {
        throw invalid(`${where}: ${name} of "${doubleArg}"`, "a number", "NaN");
      }
    }
    if (min === undefined || max === undefined) {
      continue;
    }
    const isEmpty = exclude === Exclude.UNSPECIFIED ? min > max : min >= max;
    if (isEmpty) {
      throw invalid(
        `${where}: the filter of "${doubleArg}"`,
        "a range with a number in it",
        `min ${min} and max ${max}${exclude === Exclude.UNSPECIFIED ? "" : ", excluded"}`,
      );
    }
  }
  const wanted = new Map<string, string>();
  for (const { stringArg, value } of pool.stringEqualsFilters) {
    if (stringArg === "") {
      throw invalid(`${where}: string_arg`, "the name of a string", "none");
    }
    const other = wanted.get(stringArg);
    if (other !== undefined && other !== value) {
      throw invalid(
        `${where}: the filters of "${stringArg}"`,
        "one value, for a string has no two",
        `"${other}" and "${value}"`,
      );
    }
    wanted.set(stringArg, value);
  }
  for (const { tag } of pool.tagPresentFilters) {
    if (tag === "") {
      throw invalid(`${where}: tag_present_filters`, "a tag", "an empty one");
    }
  }
}
