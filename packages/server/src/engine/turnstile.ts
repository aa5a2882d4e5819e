// SPDX-License-Identifier: Apache-2.0

/**
 * Runs the transitions of one world one at a time, in the order in which they were requested. A
 * transition runs immediately if no other is in progress. The queue is bounded: it holds the world's
 * timers, and at most a few transitions for each seat, because a stream's requests are processed one
 * by one.
 */
export class Turnstile {
  #holds = 0;
  readonly #waiting: (() => void)[] = [];

  /** Enters if no transition is in progress. If it returns true, the caller must call `release`. */
  tryEnter(): boolean {
    if (this.#holds > 0) {
      return false;
    }
    this.#holds = 1;
    return true;
  }

  /** Runs a transition, now or after the one in progress. */
  enter(transition: () => void): void {
    if (!this.tryEnter()) {
      this.#waiting.push(transition);
      return;
    }
    try {
      transition();
    } finally {
      this.release();
    }
  }

  /** Extends the current transition until a further `release`. */
  hold(): void {
    this.#holds += 1;
  }

  /** Ends the current transition, or its extension, and runs the queued transitions. */
  release(): void {
    this.#holds -= 1;
    while (this.#holds === 0 && this.#waiting.length > 0) {
      this.#holds = 1;
      try {
        this.#waiting.shift()?.();
      } finally {
        this.#holds -= 1;
      }
    }
  }
}
