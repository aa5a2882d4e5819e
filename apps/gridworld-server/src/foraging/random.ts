// SPDX-License-Identifier: Apache-2.0

/** Draws the next number of a seeded source, uniform in [0, 1). */
export type Random = () => number;

/** Draws an integer uniform in `low`…`high`, both included; draws one number. */
export function drawInteger(random: Random, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1));
}
