// SPDX-License-Identifier: Apache-2.0
import { NetworkTurns, networkTurnKey } from "./network-turns.ts";

/** Runs at most a number of asynchronous tasks at a time. Networks take turns, so that none waits for all tasks of another. */
export class Slots {
  #free: number;
  readonly #waiting = new NetworkTurns();

  constructor(count: number) {
    this.#free = count;
  }

  /** Runs a task when it is its turn, and returns its result. */
  async run<Result>(network: string, task: () => Promise<Result>): Promise<Result> {
    if (this.#free > 0) {
      this.#free -= 1;
    } else {
      await new Promise<void>((resolve) => this.#waiting.push(networkTurnKey(network), resolve));
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
