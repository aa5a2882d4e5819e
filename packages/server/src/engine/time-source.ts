// SPDX-License-Identifier: Apache-2.0
import { maxTimeoutMs } from "@dm-env-rpc/transport";

/** Where a server's time comes from; tests bring their own. */
export interface TimeSource {
  /** Milliseconds since some fixed moment; never goes back. */
  now(): number;
  /** Calls back once, `delayMs` from now at the earliest, never for Infinity; the result cancels it. */
  after(delayMs: number, callback: () => void): () => void;
}

/** The machine's own time. */
export const systemTime: TimeSource = {
  now: () => performance.now(),
  after: (delayMs, callback) => {
    if (delayMs === Number.POSITIVE_INFINITY) return () => {};
    let timer: NodeJS.Timeout;
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
