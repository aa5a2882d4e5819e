// SPDX-License-Identifier: Apache-2.0

/** Longest delay of a timer, in ms; Node turns longer delays, and Infinity, into 1 ms. */
export const maxTimeoutMs: number = 2 ** 31 - 1;

/** A clock with timers. Tests pass a manual clock. */
export interface TimeSource {
  /** Milliseconds since the Unix epoch; never goes back. */
  now(): number;
  /**
   * Calls `callback` once, after at least `delayMs`; never for Infinity.
   *
   * @returns A function that cancels the callback.
   */
  after(delayMs: number, callback: () => void): () => void;
}

/**
 * The system's clock, made monotonic: it does not jump if the machine's time is set while the process runs.
 */
export const systemTime: TimeSource = {
  now: () => performance.timeOrigin + performance.now(),
  after: (delayMs, callback) => {
    if (delayMs === Number.POSITIVE_INFINITY) {
      return () => {};
    }
    let timer: ReturnType<typeof setTimeout>;
    const wait = (leftMs: number): void => {
      const rest = leftMs - maxTimeoutMs;
      timer = setTimeout(
        () => (rest > 0 ? wait(rest) : callback()),
        Math.min(leftMs, maxTimeoutMs),
      );
    };
    wait(delayMs);
    return () => clearTimeout(timer);
  },
};

/** Resolves after `ms`, or at once when the signal aborts. */
export function pause(time: TimeSource, ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted === true) {
      resolve();
      return;
    }
    const done = (): void => {
      cancel();
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const cancel = time.after(ms, done);
    signal?.addEventListener("abort", done, { once: true });
  });
}
