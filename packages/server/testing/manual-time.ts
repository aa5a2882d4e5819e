// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "../src/engine/time-source.ts";

/** A time that stands still until a test moves it. */
export interface ManualTime extends TimeSource {
  /** Moves on, calling back what comes due, in order. */
  advance(ms: number): void;
  /** How many callbacks are due some time. */
  readonly timers: number;
  /** When the next callback is due. */
  readonly due: number | undefined;
}

export function manualTime(): ManualTime {
  let now = 0;
  let due: { at: number; callback: () => void }[] = [];
  return {
    now: () => now,
    after(delayMs, callback) {
      const timer = { at: now + delayMs, callback };
      due.push(timer);
      return () => {
        due = due.filter((other) => other !== timer);
      };
    },
    advance(ms) {
      const end = now + ms;
      for (;;) {
        const next = due.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
        if (next === undefined) break;
        due = due.filter((other) => other !== next);
        now = next.at;
        next.callback();
      }
      now = end;
    },
    get timers() {
      return due.length;
    },
    get due() {
      return due.length === 0 ? undefined : Math.min(...due.map(({ at }) => at));
    },
  };
}
