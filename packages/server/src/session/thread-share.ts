// SPDX-License-Identifier: Apache-2.0
import { later } from "@dm-env-rpc/transport/internal";

/** Time that requests may take in one turn of the event loop. */
const turnMs = 2;

/** Number of steps between two reads of the clock. */
const stepsPerLook = 64;

/**
 * Shares the thread among the sessions of a server. Once requests have taken too much of a turn of
 * the event loop, sessions wait for a later turn. Addresses take turns, and so do the sessions of
 * each address, so that a burst of one peer delays another peer by only a few milliseconds.
 */
export class ThreadShare {
  /** True if sessions must wait for a later turn (`wait`). */
  isOver = false;
  readonly #now: () => number;
  readonly #later: (task: () => void) => void;
  #steps = 0;
  /** Start of the current turn; undefined if it is not measured. */
  #sinceMs: number | undefined;
  /** Waiting sessions by network. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(
    now: () => number = () => performance.now(),
    schedule: (task: () => void) => void = later,
  ) {
    this.#now = now;
    this.#later = schedule;
  }

  /** Counts a step. */
  countStep(): void {
    this.#steps += 1;
    if (this.#steps === stepsPerLook) {
      this.#steps = 0;
      this.count();
    }
  }

  /** Counts any other request. */
  count(): void {
    const nowMs = this.#now();
    if (this.#sinceMs === undefined) {
      this.#sinceMs = nowMs;
      this.#later(this.#next);
    } else if (nowMs - this.#sinceMs > turnMs) {
      this.isOver = true;
    }
  }

  /** Calls `task` in a later turn. */
  wait(network: string, task: () => void): void {
    const waiting = this.#waiting.get(network);
    if (waiting === undefined) {
      this.#waiting.set(network, [task]);
    } else {
      waiting.push(task);
    }
  }

  readonly #next = (): void => {
    this.isOver = false;
    if (this.#waiting.size === 0) {
      this.#sinceMs = undefined;
      return;
    }
    this.#sinceMs = this.#now();
    this.#later(this.#next);
    while (!this.isOver) {
      const [first] = this.#waiting;
      if (first === undefined) {
        return;
      }
      const [network, tasks] = first;
      const task = tasks.shift();
      this.#waiting.delete(network);
      if (tasks.length > 0) {
        this.#waiting.set(network, tasks); // Behind the other networks.
      }
      task?.();
    }
  };
}
