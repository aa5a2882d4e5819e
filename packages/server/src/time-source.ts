// SPDX-License-Identifier: Apache-2.0

/** Where a server's time comes from; tests bring their own. */
export interface TimeSource {
  /** Milliseconds since some fixed moment; never goes back. */
  now(): number;
  /** Calls back once, `delayMs` from now at the earliest; the result cancels it. */
  after(delayMs: number, callback: () => void): () => void;
}

/** The machine's own time. */
export const systemTime: TimeSource = {
  now: () => performance.now(),
  after: (delayMs, callback) => {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};
