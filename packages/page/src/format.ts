// SPDX-License-Identifier: Apache-2.0
const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });

/** A number for people: three digits that count, or all of a larger one. */
export function formatNumber(value: number): string {
  return Math.abs(value) >= 100 ? whole.format(value) : precise.format(value);
}

/** The name of a world; a server of one world calls it by none. */
export function nameOf(world: string): string {
  return world === "" ? "the world" : world;
}
