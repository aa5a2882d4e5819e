// SPDX-License-Identifier: Apache-2.0
import { Queue } from "./queue.ts";

/** Runs at most a number of asynchronous tasks at a time, in the order in which they were added. */
export class Slots {
  #free: number;
  readonly #waiting = new Queue<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs a task when it is its turn, and returns its result. */
  async run<Result>(task: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) {
      this.#free -= 1;
    } else {
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    try {
      return await task();
    } finally {
      const next = this.#waiting.shift();
      if (next === undefined) {
        this.#free += 1;
      } else {
        next();
      }
    }
  }
}
