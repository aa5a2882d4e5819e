// SPDX-License-Identifier: Apache-2.0
import { systemTime, type TimeSource } from "../time/time-source.ts";

/** Maximum number of lines about one kind of event within a period; further lines are counted. */
const linesPerPeriod = 5;
const periodMs = 10_000;

/** The current period of a kind of event. */
interface Period {
  lines: number;
  /** Ends the period. */
  readonly end: () => void;
}

/** Limits the lines of a log about events that peers cause, so that no peer can fill it. */
export class LineLimit {
  readonly #onSkipped: (kind: string, lines: number, seconds: number) => void;
  readonly #time: TimeSource;
  readonly #periods = new Map<string, Period>();

  /**
   * @param onSkipped Called ten seconds after the first line about a kind of event, if there were more than five, with
   *   the number of lines that were skipped.
   */
  constructor(
    onSkipped: (kind: string, lines: number, seconds: number) => void,
    time: TimeSource = systemTime,
  ) {
    this.#onSkipped = onSkipped;
    this.#time = time;
  }

  /** Counts a line about a kind of event; returns false if the log must skip it. */
  admits(kind: string): boolean {
    const period = this.#periods.get(kind) ?? this.#begin(kind);
    period.lines += 1;
    return period.lines <= linesPerPeriod;
  }

  /** Reports skipped lines now. */
  flush(): void {
    for (const { end } of [...this.#periods.values()]) {
      end();
    }
  }

  #begin(kind: string): Period {
    const begunMs = this.#time.now();
    const end = (): void => {
      cancel();
      this.#periods.delete(kind);
      const skipped = period.lines - linesPerPeriod;
      if (skipped > 0) {
        const seconds = Math.round((this.#time.now() - begunMs) / 1_000);
        this.#onSkipped(kind, skipped, Math.max(1, seconds));
      }
    };
    const cancel = this.#time.after(periodMs, end);
    const period = { lines: 0, end };
    this.#periods.set(kind, period);
    return period;
  }
}
