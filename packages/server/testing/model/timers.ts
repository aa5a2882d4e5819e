// SPDX-License-Identifier: Apache-2.0

interface Timer {
  readonly at: number;
  readonly due: () => void;
}

/** Something that calls back later. */
export interface Alarm {
  /** Milliseconds since the model began. */
  readonly now: number;
  /** Calls back once, `delayMs` from now; the result cancels it. */
  after(delayMs: number, due: () => void): () => void;
}

/** The moments that the model waits for. */
export class Timers implements Alarm {
  now = 0;
  #timers: Timer[] = [];

  get count(): number {
    return this.#timers.length;
  }

  /** When the next one comes. */
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

  /** Moves on to the next moment, `end` at the latest; whether there was one. */
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

/** A deadline that runs for as long as a condition holds, from the moment that it came to hold. */
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
