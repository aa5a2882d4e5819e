// SPDX-License-Identifier: Apache-2.0
import type { Fate, Oracle, PatientCall } from "../patient.ts";
import { codes } from "./requests.ts";
import type { Alarm } from "./timers.ts";

/** Time limit of an author call, in milliseconds. */
export const callMs = 2017;

/** An author call failed, or never settles. */
class Broken {
  readonly fate: Fate;

  constructor(fate: Fate) {
    this.fate = fate;
  }
}

interface Turn {
  operation: () => void;
  /** Answers the caller if the world ends before the turn is over. */
  ended: ((code: number) => void) | undefined;
}

/** Runs the operations of a world one at a time, in the order of the calls. */
export class Turns implements Alarm {
  readonly #alarm: Alarm;
  readonly #oracle: Oracle;
  readonly #fail: (code: number) => void;
  readonly #waiting: Turn[] = [];

  /** @param fail Called when the world fails, with the code of the error. */
  constructor(alarm: Alarm, oracle: Oracle, fail: (code: number) => void) {
    this.#alarm = alarm;
    this.#oracle = oracle;
    this.#fail = fail;
  }

  get now(): number {
    return this.#alarm.now;
  }

  /** @param ended Answers the caller if the world ends first; without it the turn still runs. */
  take(operation: () => void, ended?: (code: number) => void): void {
    this.#waiting.push({ operation, ended });
    if (this.#waiting.length === 1) {
      this.#run();
    }
  }

  /** Ends the world: waiting callers are answered at once. */
  abandon(code: number): void {
    for (const turn of this.#waiting.slice(1)) {
      this.#abandon(turn, code);
    }
  }

  #abandon(turn: Turn, code: number): void {
    const { ended } = turn;
    if (ended === undefined) {
      return;
    }
    turn.ended = undefined;
    turn.operation = () => {};
    ended(code);
  }

  #run(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      try {
        next.operation();
      } catch (error) {
        if (!(error instanceof Broken)) {
          throw error;
        }
        if (error.fate === "hangs") {
          this.#alarm.after(callMs, () => {
            this.#break(codes.deadlineExceeded);
            this.#waiting.shift();
            this.#run();
          });
          return;
        }
        this.#break(codes.internal);
      }
      this.#waiting.shift();
    }
  }

  #break(code: number): void {
    this.#fail(code);
    for (const turn of [...this.#waiting]) {
      this.#abandon(turn, code);
    }
  }

  /** Makes an author call; the turn continues only if that succeeds. */
  call(call: PatientCall): void {
    const fate = this.#oracle(call);
    if (fate !== "succeeds") {
      throw new Broken(fate);
    }
  }

  /** Calls back in a turn of its own, unless it was cancelled before. */
  after(delayMs: number, due: () => void): () => void {
    let cancelled = false;
    const cancel = this.#alarm.after(delayMs, () =>
      this.take(() => {
        if (!cancelled) {
          due();
        }
      }),
    );
    return () => {
      cancelled = true;
      cancel();
    };
  }
}
