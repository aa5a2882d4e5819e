// SPDX-License-Identifier: Apache-2.0
const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });

/** Formats a number with three significant digits, or with all digits of a larger integer part. */
export function formatNumber(value: number): string {
  return Math.abs(value) >= 100 ? whole.format(value) : precise.format(value);
}

/** Returns the name of a world to show; the only world of a server may have an empty name. */
export function nameOf(world: string): string {
  return world === "" ? "the world" : world;
}
