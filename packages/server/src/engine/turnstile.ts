// SPDX-License-Identifier: Apache-2.0

/**
 * Serializes the transitions of one world in the order in which they were requested: immediately if
 * none is in progress. The queue holds the world's timers, and at most a few transitions for each seat of a stream,
 * whose requests are processed one by one.
 */
export class Turnstile {
  #holds = 0;
  readonly #waiting: (() => void)[] = [];

  /** Enters if no transition is in progress; after true, `release` must follow. */
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

  /** Extends the present transition until one more `release`. */
  hold(): void {
    this.#holds += 1;
  }

  /** Ends the present transition, or its extension, and runs the queued ones. */
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
