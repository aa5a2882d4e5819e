// SPDX-License-Identifier: Apache-2.0
import { later } from "./later.ts";
import { NetworkTurns, type TurnKey } from "./network-turns.ts";

/** Time after which no further request begins in a turn of the event loop, except one task of each share that waits. */
const turnMs = 1;

/**
 * Number of parts of a turn in which waiting tasks run. Between two parts, Node runs what the tasks have scheduled with
 * `process.nextTick`: it writes their responses and reads further requests, which may take as long as the tasks. That
 * time thus counts, too.
 */
const partsPerTurn = 4;
const partMs = turnMs / partsPerTurn;

/** Number of steps between two reads of the clock. */
const stepsPerLook = 64;

/** The turns of an event loop, each of which is divided among several shares. */
export class LoopTurns {
  readonly #now: () => number;
  readonly #later: (task: () => void) => void;
  /** Start of the current turn; undefined if it is not measured. */
  #sinceMs: number | undefined;
  /** End of the current part. */
  #partEndMs = 0;
  #isPartOver = false;
  /** Shares that have counted requests in this turn, or whose tasks wait. */
  readonly #shares = new Set<ThreadShare>();

  /**
   * @param now A clock, in milliseconds.
   * @param schedule Calls a task in the next turn.
   */
  constructor(
    now: () => number = () => performance.now(),
    schedule: (task: () => void) => void = later,
  ) {
    this.#now = now;
    this.#later = schedule;
  }

  /** Reads the clock. Returns true if requests have taken too much of this turn. */
  count(share: ThreadShare): boolean {
    const nowMs = this.#now();
    this.#shares.add(share);
    if (this.#sinceMs === undefined) {
      this.#sinceMs = nowMs;
      this.#later(this.#next);
    }
    this.#isPartOver = nowMs > this.#partEndMs;
    return nowMs - this.#sinceMs > turnMs;
  }

  readonly #next = (): void => {
    for (const share of this.#shares) {
      share.beginTurn();
      if (!share.isWaiting) {
        this.#shares.delete(share);
      }
    }
    if (this.#shares.size === 0) {
      this.#sinceMs = undefined;
      return;
    }
    this.#sinceMs = this.#now();
    this.#later(this.#next);
    this.#runPart();
    for (let part = 1; part < partsPerTurn; part++) {
      this.#later(this.#runPart); // In the next turn.
    }
  };

  readonly #runPart = (): void => {
    this.#partEndMs = this.#now() + partMs;
    this.#isPartOver = false;
    let hasRun = true;
    while (hasRun && !this.#isPartOver) {
      hasRun = false;
      for (const share of this.#shares) {
        hasRun = share.runNext() || hasRun;
      }
    }
    for (const share of this.#shares) {
      share.endPart();
    }
  };
}

const loopTurns = new LoopTurns();

/**
 * Shares the thread among the sessions of a server, or among calls. Once requests have taken too much of a turn
 * of the event loop, sessions wait for a later turn. Networks take turns, and so do the connections of each network and
 * the sessions of each connection, so that a burst of one peer delays another peer by only a few milliseconds.
 *
 * All shares of a thread divide the same turn. Their tasks alternate.
 */
export class ThreadShare {
  /** True if sessions must wait for a later turn (`wait`). */
  isOver = false;
  readonly #turns: LoopTurns;
  readonly #perTurn: number;
  #steps = 0;
  /** Number of `count` calls in the current turn. */
  #counted = 0;
  /** True if no task that waits runs in the rest of the turn. */
  #isTurnOver = false;
  readonly #waiting = new NetworkTurns();

  /**
   * @param turns Default: the turns of this thread's event loop, measured in real time.
   * @param perTurn Maximum number of `count` calls in a turn. Set it if most of a request's work is done in later turns
   *   or in promises: the clock is read when `count` is called, so it does not measure that work.
   */
  constructor(turns: LoopTurns = loopTurns, perTurn: number = Number.POSITIVE_INFINITY) {
    this.#turns = turns;
    this.#perTurn = perTurn;
  }

  /** True if a task waits. */
  get isWaiting(): boolean {
    return !this.#waiting.isEmpty;
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
    this.#counted += 1;
    this.measure();
  }

  /** Reads the clock after work that belongs to a counted request. */
  measure(): void {
    if (this.#turns.count(this) || this.#counted >= this.#perTurn) {
      this.#isTurnOver = true;
      this.isOver = true;
    }
  }

  /** Calls `task` in a later turn, or in a later part of this one. Call it in a turn in which `count` was called. */
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

  /** Begins a turn; called by the turns of the event loop. */
  beginTurn(): void {
    this.#counted = 0;
    this.#isTurnOver = false;
    this.isOver = false;
  }

  /**
   * Runs a task that waits; called by the turns of the event loop.
   *
   * @returns False if no task waits, or the turn is over.
   */
  runNext(): boolean {
    const task = this.#isTurnOver ? undefined : this.#waiting.shift();
    if (task === undefined) {
      return false;
    }
    this.isOver = false;
    task();
    return true;
  }

  /** Called at the end of a part of a turn. What arrives before the next part waits behind the tasks that wait. */
  endPart(): void {
    this.isOver = this.#isTurnOver || this.isWaiting;
  }
}

/** The turns in which a peer's large requests are checked. To check 64 KiB takes up to 4 ms. */
export interface CheckTurns {
  readonly share: ThreadShare;
  readonly key: TurnKey;
}
