// SPDX-License-Identifier: Apache-2.0
import type { Fate, Oracle, PatientCall } from "../patient.ts";
import { codes } from "./requests.ts";
import type { Alarm } from "./timers.ts";

/** How long a call of the author's code may take, in milliseconds. */
export const callMs = 2017;

/** A call of the author's code went wrong, or never comes back. */
class Broken {
  readonly fate: Fate;

  constructor(fate: Fate) {
    this.fate = fate;
  }
}

interface Turn {
  readonly operation: () => void;
  /** Tells who asked that the world broke instead. */
  readonly broken: (code: number) => void;
}

/** What is asked of a world is done one thing at a time, in the order in which it was asked. */
export class Turns implements Alarm {
  readonly #alarm: Alarm;
  readonly #oracle: Oracle;
  readonly #fail: (code: number) => void;
  readonly #waiting: Turn[] = [];

  /** @param fail Told that the world is broken, and the code of the reason. */
  constructor(alarm: Alarm, oracle: Oracle, fail: (code: number) => void) {
    this.#alarm = alarm;
    this.#oracle = oracle;
    this.#fail = fail;
  }

  take(operation: () => void, broken: (code: number) => void = () => {}): void {
    this.#waiting.push({ operation, broken });
    if (this.#waiting.length === 1) this.#run();
  }

  #run(): void {
    for (let next = this.#waiting[0]; next !== undefined; next = this.#waiting[0]) {
      try {
        next.operation();
      } catch (error) {
        if (!(error instanceof Broken)) throw error;
        if (error.fate === "hangs") {
          this.#alarm.after(callMs, () => this.#end(codes.deadlineExceeded));
          return;
        }
        this.#fail(codes.internal);
        next.broken(codes.internal);
      }
      this.#waiting.shift();
    }
  }

  /** The turn that hangs ends with the patience; then come the others. */
  #end(code: number): void {
    this.#fail(code);
    this.#waiting[0]?.broken(code);
    this.#waiting.shift();
    this.#run();
  }

  /** The author's code is called; what comes after it in a turn comes only if that goes well. */
  call(call: PatientCall): void {
    const fate = this.#oracle(call);
    if (fate !== "succeeds") throw new Broken(fate);
  }

  /** Calls back in a turn of its own, unless that was cancelled before the turn came. */
  after(delayMs: number, due: () => void): () => void {
    let cancelled = false;
    const cancel = this.#alarm.after(delayMs, () =>
      this.take(() => {
        if (!cancelled) due();
      }),
    );
    return () => {
      cancelled = true;
      cancel();
    };
  }
}
