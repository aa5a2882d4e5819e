// SPDX-License-Identifier: Apache-2.0
const whole = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 0 });
const precise = new Intl.NumberFormat("en-GB", { maximumSignificantDigits: 3 });

/** Formats a number with up to three significant digits; from 100 on, as a whole number. */
export function formatNumber(value: number): string {
  return Math.abs(value) >= 100 ? whole.format(value) : precise.format(value);
}

/** Returns the text that the page shows as the name of a world: the only world of a server may have an empty name. */
export function nameOf(world: string): string {
  return world === "" ? "the world" : world;
}

const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** Formats a time in milliseconds as the time of the day. */
export function formatTime(timeMs: number): string {
  return clock.format(timeMs);
}

/** Formats a time span in its largest units, such as `2 h 05 min` or `12 s`. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000));
  const [minutes, hours] = [Math.floor(seconds / 60), Math.floor(seconds / 3_600)];
  const two = (count: number): string => String(count).padStart(2, "0");
  if (hours > 0) {
    return `${hours} h ${two(minutes % 60)} min`;
  }
  return minutes > 0 ? `${minutes} min ${two(seconds % 60)} s` : `${seconds} s`;
}
