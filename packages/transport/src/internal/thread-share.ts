// SPDX-License-Identifier: Apache-2.0
import { later } from "./later.ts";
import { NetworkTurns, type TurnKey } from "./network-turns.ts";

/** Maximum time that requests take in one turn of the event loop. */
const turnMs = 1;

/** Number of steps between two reads of the clock. */
const stepsPerLook = 64;

/**
 * Shares the thread among the sessions of a server, or among calls. Once requests have taken too much of a turn
 * of the event loop, sessions wait for a later turn. Networks take turns, and so do the connections of each network and
 * the sessions of each connection, so that a burst of one peer delays another peer by only a few milliseconds.
 */
export class ThreadShare {
  /** True if sessions must wait for a later turn (`wait`). */
  isOver = false;
  readonly #now: () => number;
  readonly #later: (task: () => void) => void;
  readonly #perTurn: number;
  #steps = 0;
  /** Number of `count` calls in the current turn. */
  #counted = 0;
  /** Start of the current turn; undefined if it is not measured. */
  #sinceMs: number | undefined;
  readonly #waiting = new NetworkTurns();

  /**
   * @param perTurn Maximum number of `count` calls in a turn. Set it if most of a request's work is done in later turns
   *   or in promises: the clock is read when `count` is called, so it does not measure that work.
   */
  constructor(
    now: () => number = () => performance.now(),
    schedule: (task: () => void) => void = later,
    perTurn: number = Number.POSITIVE_INFINITY,
  ) {
    this.#now = now;
    this.#later = schedule;
    this.#perTurn = perTurn;
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
    this.#counted += 1;
    if (this.#sinceMs === undefined) {
      this.#sinceMs = nowMs;
      this.#later(this.#next);
    }
    if (this.#counted >= this.#perTurn || nowMs - this.#sinceMs > turnMs) {
      this.isOver = true;
    }
  }

  /** Calls `task` in a later turn. */
  wait(key: TurnKey, task: () => void): void {
    this.#waiting.push(key, task);
  }

  /**
   * Runs a task in this turn, or in a later turn if this one is over.
   *
   * @returns The task's result, or a rejection with the error that it throws.
   */
  run<Result>(key: TurnKey, task: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      const start = (): void => {
        this.count();
        try {
          resolve(task());
        } catch (error) {
          reject(error);
        }
        this.count(); // Of several tasks that take long, only one runs in each turn.
      };
      if (this.isOver) {
        this.wait(key, start);
      } else {
        start();
      }
    });
  }

  readonly #next = (): void => {
    this.isOver = false;
    this.#counted = 0;
    if (this.#waiting.isEmpty) {
      this.#sinceMs = undefined;
      return;
    }
    this.#sinceMs = this.#now();
    this.#later(this.#next);
    while (!this.isOver && !this.#waiting.isEmpty) {
      this.#waiting.shift()?.();
    }
  };
}

/** The turns in which a peer's large requests are checked. To check 64 KiB takes up to 4 ms. */
export interface CheckTurns {
  readonly share: ThreadShare;
  readonly key: TurnKey;
}
