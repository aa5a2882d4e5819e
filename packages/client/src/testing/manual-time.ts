// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "../realtime/time-source.ts";

/** Time that goes on when it is told to. */
export interface ManualTime extends TimeSource {
  advance(ms: number): void;
}

/** Makes time that stands at 0. */
export function manualTime(): ManualTime {
  let time = 0;
  let timers: { readonly at: number; readonly task: () => void }[] = [];
  return {
    now: () => time,
    after: (ms, task) => {
      const timer = { at: time + ms, task };
      timers.push(timer);
      return () => {
        timers = timers.filter((other) => other !== timer);
      };
    },
    advance(ms) {
      const end = time + ms;
      for (;;) {
        const due = timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at)[0];
        if (due === undefined) break;
        timers = timers.filter((other) => other !== due);
        time = Math.max(time, due.at);
        due.task();
      }
      time = end;
    },
  };
}
