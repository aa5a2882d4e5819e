// SPDX-License-Identifier: Apache-2.0

/** Buckets per doubling: values are accurate to about 2 %. */
const perDoubling = 32;
const doublings = 40;

/** Counts durations in buckets of growing width, without memory per sample. */
export interface Histogram {
  /** Adds a duration, in any unit; values below 2^-10 count as 2^-10. */
  record(value: number): void;
  /** Duration below which a share `p` (0 to 1) of the samples lies; NaN without samples. */
  quantile(p: number): number;
  clear(): void;
  readonly count: number;
}

/** Creates an empty histogram. */
export function histogram(): Histogram {
  const counts = new Uint32Array(perDoubling * doublings);
  let count = 0;
  return {
    record(value) {
      const bucket = Math.floor((Math.log2(value) + 10) * perDoubling);
      const place = Math.min(Math.max(bucket, 0), counts.length - 1);
      counts[place] = (counts[place] ?? 0) + 1;
      count += 1;
    },
    quantile(p) {
      if (count === 0) {
        return Number.NaN;
      }
      const rank = Math.max(1, Math.ceil(p * count));
      let seen = 0;
      for (let place = 0; place < counts.length; place++) {
        seen += counts[place] ?? 0;
        // The middle of the bucket, on the logarithmic scale of the buckets.
        if (seen >= rank) {
          return 2 ** ((place + 0.5) / perDoubling - 10);
        }
      }
      return Number.NaN;
    },
    clear() {
      counts.fill(0);
      count = 0;
    },
    get count() {
      return count;
    },
  };
}
