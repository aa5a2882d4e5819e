// SPDX-License-Identifier: Apache-2.0

import type { Duration } from "@bufbuild/protobuf/wkt";
import {
  type DoubleRangeFilter,
  DoubleRangeFilter_Exclude as Exclude,
  type Pool,
} from "@dm-env-rpc/protocol/matchmaker";
import { invalid } from "../errors/errors.ts";
import { milliseconds } from "../model/durations.ts";
import type { SearchFields } from "../model/model.ts";

/**
 * Returns the waiting time in milliseconds after which a ticket enters a pool: 0 for immediately, infinity
 * for never.
 */
export type PoolFilter = (search: SearchFields) => number;

const never = Number.POSITIVE_INFINITY;

/**
 * Creates the filter of a pool: a ticket must pass all of the pool's filters. If a ticket lacks the field
 * of a filter, the filter accepts the ticket only after `drop_after`.
 */
export function poolFilter(pool: Pool): PoolFilter {
  const tests: readonly PoolFilter[] = [
    ...pool.doubleRangeFilters.map((filter) => dropped(rangeFilter(filter), filter)),
    ...pool.stringEqualsFilters.map((filter) => {
      const { stringArg, value } = filter;
      const equals: PoolFilter = ({ strings }) =>
        Object.hasOwn(strings, stringArg) && strings[stringArg] === value ? 0 : never;
      return dropped(equals, filter);
    }),
    ...pool.tagPresentFilters.map((filter) => {
      const isPresent: PoolFilter = ({ tags }) => (tags.includes(filter.tag) ? 0 : never);
      return dropped(isPresent, filter);
    }),
  ];
  return (search) => {
    let afterMs = 0;
    for (const test of tests) {
      afterMs = Math.max(afterMs, test(search));
      if (afterMs === never) {
        return never;
      }
    }
    return afterMs;
  };
}

/** Wraps a filter so that every ticket passes it after `dropAfter`. */
function dropped(
  filter: PoolFilter,
  { dropAfter }: { readonly dropAfter?: Duration | undefined },
): PoolFilter {
  const dropMs = milliseconds(dropAfter);
  return dropMs === undefined ? filter : (search) => Math.min(dropMs, filter(search));
}

function rangeFilter({
  doubleArg,
  min = Number.NEGATIVE_INFINITY,
  max = Number.POSITIVE_INFINITY,
  exclude,
  widenPerSecond,
}: DoubleRangeFilter): PoolFilter {
  const openBelow = exclude === Exclude.MIN || exclude === Exclude.BOTH;
  const openAbove = exclude === Exclude.MAX || exclude === Exclude.BOTH;
  return ({ doubles }) => {
    if (!Object.hasOwn(doubles, doubleArg)) {
      return never;
    }
    const value = doubles[doubleArg] ?? Number.NaN;
    if ((openBelow ? value > min : value >= min) && (openAbove ? value < max : value <= max)) {
      return 0;
    }
    const distance = Math.max(min - value, value - max);
    return widenPerSecond > 0 ? (distance / widenPerSecond) * 1_000 : never;
  };
}

/**
 * Refuses filters that no ticket can pass.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT naming the pool and the filter.
 */
export function checkPool(pool: Pool): void {
  const where = `pool "${pool.name}"`;
  for (const { doubleArg, min, max, exclude, widenPerSecond } of pool.doubleRangeFilters) {
    if (!(widenPerSecond >= 0)) {
      throw invalid(
        `${where}: widen_per_second of "${doubleArg}"`,
        "a number of at least 0",
        String(widenPerSecond),
      );
    }
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
        "a range that contains a number",
        `min ${min} and max ${max}${exclude === Exclude.UNSPECIFIED ? "" : ", with bounds excluded"}`,
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
        "one value, because a string cannot equal both",
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
