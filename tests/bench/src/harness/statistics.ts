// SPDX-License-Identifier: Apache-2.0

/** Summary of repeated measurements. */
export interface Summary {
  readonly median: number;
  readonly min: number;
  readonly max: number;
}

/** The value below which a share `p` (0 to 1) of the samples lies: the nearest rank. NaN without samples. */
export function quantile(samples: readonly number[], p: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const rank = Math.ceil(p * sorted.length) - 1;
  return sorted[Math.min(Math.max(rank, 0), sorted.length - 1)] ?? Number.NaN;
}

/** The middle of the samples; of an even number the mean of both in the middle. NaN without samples. */
export function median(samples: readonly number[]): number {
  const sorted = [...samples].sort((a, b) => a - b);
  const middle = sorted.length / 2;
  const upper = sorted[Math.floor(middle)] ?? Number.NaN;
  return Number.isInteger(middle) ? ((sorted[middle - 1] ?? Number.NaN) + upper) / 2 : upper;
}

/** Median, minimum and maximum. */
export function summarize(samples: readonly number[]): Summary {
  return { median: median(samples), min: Math.min(...samples), max: Math.max(...samples) };
}
