// SPDX-License-Identifier: Apache-2.0

/** Where time comes from; tests bring their own. */
export interface TimeSource {
  /** Milliseconds since 1970; never goes back. */
  now(): number;
  /** Calls back once, `delayMs` from now at the earliest; the result cancels it. */
  after(delayMs: number, callback: () => void): () => void;
}

/** The machine's own time. A clock that is set while the process runs does not move it. */
export const systemTime: TimeSource = {
  now: () => performance.timeOrigin + performance.now(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};

/** Resolves after some time, or at once when the signal aborts. */
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
