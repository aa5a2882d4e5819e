// SPDX-License-Identifier: Apache-2.0

interface Timer {
  readonly at: number;
  readonly due: () => void;
}

/** A timer. */
export interface Alarm {
  /** Milliseconds since the model began. */
  readonly now: number;
  /**
   * Calls back once, `delayMs` from now.
   *
   * @returns A function that cancels it.
   */
  after(delayMs: number, due: () => void): () => void;
}

/** The pending timers of the model. */
export class Timers implements Alarm {
  now = 0;
  #timers: Timer[] = [];

  get count(): number {
    return this.#timers.length;
  }

  /** Time of the next timer. */
  get due(): number | undefined {
    return this.count === 0 ? undefined : Math.min(...this.#timers.map(({ at }) => at));
  }

  after(delayMs: number, due: () => void): () => void {
    const timer = { at: this.now + delayMs, due };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  }

  /** Advances to the next timer, at most to `end`; returns true if there was one. */
  next(end: number): boolean {
    const [first] = this.#timers.filter(({ at }) => at <= end).sort((a, b) => a.at - b.at);
    if (first === undefined) {
      this.now = end;
      return false;
    }
    this.#timers = this.#timers.filter((other) => other !== first);
    this.now = first.at;
    first.due();
    return true;
  }
}

/** A deadline that runs while a condition holds, from the moment it starts to hold. */
export class Deadline {
  readonly #alarm: Alarm;
  readonly #delayMs: number | undefined;
  readonly #due: () => void;
  #cancel: (() => void) | undefined;

  constructor(alarm: Alarm, delayMs: number | undefined, due: () => void) {
    this.#alarm = alarm;
    this.#delayMs = delayMs;
    this.#due = due;
  }

  holds(condition: boolean): void {
    if (!condition) {
      this.stop();
    } else if (this.#delayMs !== undefined && this.#cancel === undefined) {
      this.#cancel = this.#alarm.after(this.#delayMs, () => {
        this.#cancel = undefined;
        this.#due();
      });
    }
  }

  stop(): void {
    this.#cancel?.();
    this.#cancel = undefined;
  }
}
