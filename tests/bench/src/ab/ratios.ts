// SPDX-License-Identifier: Apache-2.0
import { median } from "../harness/statistics.ts";

/** A ratio that was measured in several launches. */
export interface Ratio {
  /** Median of the launches. */
  readonly median: number;
  /** Interval that contains the median of all possible launches with a probability of 95 % or more. */
  readonly low: number;
  readonly high: number;
}

/**
 * Ratios of paired turns: the median of each launch, then the median of the launches.
 *
 * @param pairs Turns of this tree and of its base next to each other, launch after launch.
 * @param perLaunch Pairs of one launch.
 */
export function ratios(pairs: readonly (readonly [number, number])[], perLaunch: number): Ratio {
  const launches: number[] = [];
  for (let start = 0; start < pairs.length; start += perLaunch) {
    const launch = pairs.slice(start, start + perLaunch);
    launches.push(median(launch.map(([mine, base]) => mine / base)));
  }
  return { median: median(launches), ...intervalOfMedian(launches) };
}

/** Half of the width of a normal distribution's interval of 95 %, in standard deviations. */
const deviations = 1.96;

/**
 * Returns two of the samples between which the median of their distribution, whatever its form, lies in 95 % of cases. The
 * number of samples below that median has a binomial distribution. Of fewer than six samples, returns the extremes.
 */
function intervalOfMedian(samples: readonly number[]): { low: number; high: number } {
  const sorted = [...samples].sort((a, b) => a - b);
  const rank = Math.floor((sorted.length - deviations * Math.sqrt(sorted.length)) / 2);
  const at = Math.max(rank, 1) - 1;
  return { low: sorted[at] ?? Number.NaN, high: sorted[sorted.length - 1 - at] ?? Number.NaN };
}
