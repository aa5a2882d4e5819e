// SPDX-License-Identifier: Apache-2.0
import { median, type Summary, summarize } from "../harness/statistics.ts";

/**
 * Ratios of paired turns: the median of each launch, then the median, minimum and maximum over launches.
 *
 * @param pairs Turns of this tree and of its base next to each other, launch after launch.
 * @param perLaunch Pairs of one launch.
 */
export function ratios(pairs: readonly (readonly [number, number])[], perLaunch: number): Summary {
  const launches: number[] = [];
  for (let start = 0; start < pairs.length; start += perLaunch) {
    const launch = pairs.slice(start, start + perLaunch);
    launches.push(median(launch.map(([mine, base]) => mine / base)));
  }
  return summarize(launches);
}
