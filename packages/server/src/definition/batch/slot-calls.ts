// SPDX-License-Identifier: Apache-2.0
import { type Awaitable, isPromiseLike } from "../awaitable.ts";
import type { BatchHost, SlotLimitsMs } from "./request.ts";

/** What comes of a call of the author's code. */
export interface Outcome<T> {
  readonly limit: keyof SlotLimitsMs;
  readonly use: (value: T) => void;
  /** Takes what the call or `use` throws, and the error of a promise that is overdue. */
  readonly failed: (error: unknown) => void;
  /** Takes the value of a promise that was given up. */
  readonly late?: (value: T) => void;
}

/**
 * The author's calls of one transition of a batch: slots do not wait for each other, and the transition is over when
 * all of them are.
 */
export class SlotCalls {
  readonly #host: BatchHost;
  /** Calls whose promise is pending. */
  readonly #pending = new Set<() => void>();
  #resolve: (() => void) | undefined;

  constructor(host: BatchHost) {
    this.#host = host;
  }

  /** Calls the author's code; `use` or `failed` follows, now or later. */
  call<T>(run: () => Awaitable<T>, outcome: Outcome<T>): void {
    let result: Awaitable<T>;
    try {
      result = run();
      if (!isPromiseLike(result)) {
        outcome.use(result);
        return;
      }
    } catch (error) {
      outcome.failed(error);
      return;
    }
    this.wait(result, outcome);
  }

  /** Waits for a promise of the author's. */
  wait<T>(result: PromiseLike<T>, { limit, use, failed, late }: Outcome<T>): void {
    const limitMs = this.#host.limits[limit];
    const settle = (finish: () => void): void => {
      cancel();
      try {
        finish();
      } catch (error) {
        failed(error);
      }
      // What came of it may be pending by now.
      this.#pending.delete(cancel);
      if (this.#pending.size === 0) {
        this.#resolve?.();
      }
    };
    const cancel = this.#host.after(limitMs, () =>
      settle(() =>
        failed(new Error(`its promise did not settle within ${limitMs} ms (limit: ${limit})`)),
      ),
    );
    this.#pending.add(cancel);
    result.then(
      (value) => {
        if (this.#pending.has(cancel)) {
          settle(() => use(value));
        } else {
          late?.(value);
        }
      },
      (error: unknown) => {
        if (this.#pending.has(cancel)) {
          settle(() => failed(error));
        }
      },
    );
  }

  /** Calls back when no promise is pending: now, or later. */
  settled(finish: () => void): Awaitable<void> {
    if (this.#pending.size === 0) {
      finish();
      return undefined;
    }
    return new Promise<void>((resolve) => {
      this.#resolve = resolve;
    }).then(() => {
      this.#resolve = undefined;
      finish();
    });
  }

  /** Gives up what is pending. */
  stop(): void {
    for (const cancel of this.#pending) {
      cancel();
    }
    this.#pending.clear();
  }
}
