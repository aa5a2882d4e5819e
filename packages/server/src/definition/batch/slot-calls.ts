// SPDX-License-Identifier: Apache-2.0
import { type Awaitable, isPromiseLike } from "../awaitable.ts";
import type { BatchHost, SlotLimitsMs } from "./request.ts";

/** Callbacks for the outcome of an author call. */
export interface Outcome<T> {
  readonly limit: keyof SlotLimitsMs;
  readonly use: (value: T) => void;
  /** Receives an error of the call or of `use`, and the error of an overdue promise. */
  readonly failed: (error: unknown) => void;
  /** Receives the value of a promise that resolved too late. */
  readonly late?: (value: T) => void;
}

/**
 * Author calls of one transition of a batch. Slots do not wait for each other; the transition ends
 * when all calls have ended.
 */
export class SlotCalls {
  readonly #host: BatchHost;
  /** Calls whose promise is pending. */
  readonly #pending = new Set<() => void>();
  #resolve: (() => void) | undefined;

  constructor(host: BatchHost) {
    this.#host = host;
  }

  /** Makes an author call; `use` or `failed` follows, synchronously or later. */
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

  /** Waits for a promise of an author call. */
  wait<T>(result: PromiseLike<T>, { limit, use, failed, late }: Outcome<T>): void {
    const limitMs = this.#host.limits[limit];
    const settle = (finish: () => void): void => {
      cancel();
      try {
        finish();
      } catch (error) {
        failed(error);
      }
      // `use` may have started another pending call.
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

  /** Calls `finish` when no promise is pending: now, or later. */
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

  /** Abandons pending calls. */
  stop(): void {
    for (const cancel of this.#pending) {
      cancel();
    }
    this.#pending.clear();
  }
}
