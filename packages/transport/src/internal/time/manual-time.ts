// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "./time-source.ts";

/** A clock that does not move until a test advances it. */
export interface ManualTime extends TimeSource {
  /** Advances the clock by `ms` and runs the callbacks that are due by then, in order. */
  advance(ms: number): void;
  /** Number of pending callbacks. */
  readonly timers: number;
  /** Time of the next callback, in the milliseconds of `now()`; undefined if none is pending. */
  readonly due: number | undefined;
}

/**
 * Returns a clock that shows `startMs` until `advance` is called.
 *
 * @param startMs - initial value of `now()`, in milliseconds since the Unix epoch. Default 0.
 */
export function manualTime(startMs = 0): ManualTime {
  let now = startMs;
  let pending: { readonly at: number; readonly callback: () => void }[] = [];
  return {
    now: () => now,
    after(delayMs, callback) {
      if (delayMs === Number.POSITIVE_INFINITY) {
        return () => {};
      }
      const timer = { at: now + delayMs, callback };
      pending.push(timer);
      return () => {
        pending = pending.filter((other) => other !== timer);
      };
    },
    advance(ms) {
      const end = now + ms;
      for (;;) {
        const [next] = pending.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
        if (next === undefined) {
          break;
        }
        pending = pending.filter((other) => other !== next);
        now = Math.max(now, next.at);
        next.callback();
      }
      now = end;
    },
    get timers() {
      return pending.length;
    },
    get due() {
      return pending.length === 0 ? undefined : Math.min(...pending.map(({ at }) => at));
    },
  };
}
