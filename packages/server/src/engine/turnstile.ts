// SPDX-License-Identifier: Apache-2.0

/**
 * Lets the operations on one world through one at a time, in the order in which
 * they came: at once when nothing goes on, else after what does. What waits is
 * bounded by the agents of the world: each has one request outstanding at most.
 */
export class Turnstile {
  #holds = 0;
  #waiting: (() => void)[] = [];

  /** Enters if nothing goes on; whoever entered must `release`. */
  tryEnter(): boolean {
    if (this.#holds > 0) return false;
    this.#holds = 1;
    return true;
  }

  /** Runs an operation now, or after what goes on. */
  enter(operation: () => void): void {
    if (!this.tryEnter()) {
      this.#waiting.push(operation);
      return;
    }
    try {
      operation();
    } finally {
      this.release();
    }
  }

  /** Keeps the turnstile shut beyond the present operation, until a `release` more. */
  hold(): void {
    this.#holds += 1;
  }

  /** Leaves, and lets through what waits. */
  release(): void {
    this.#holds -= 1;
    while (this.#holds === 0 && this.#waiting.length > 0) {
      const batch = this.#waiting;
      this.#waiting = [];
      for (let i = 0; i < batch.length; i++) {
        if (this.#holds > 0) {
          this.#waiting = batch.slice(i).concat(this.#waiting);
          return;
        }
        this.#holds = 1;
        try {
          (batch[i] as () => void)();
        } finally {
          this.#holds -= 1;
        }
      }
    }
  }
}
