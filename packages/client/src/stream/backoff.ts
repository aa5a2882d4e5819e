// SPDX-License-Identifier: Apache-2.0
import { systemTime } from "@dm-env-rpc/transport/internal";
import { canceled } from "./wait.ts";

/** How long to wait before trying again, and how often. */
export interface BackoffOptions {
  /** Most attempts, one after another, without success. Default 5. */
  readonly maxAttempts?: number | undefined;
  /** Most to wait before the second attempt; it doubles with each. Default 100. */
  readonly initialMs?: number | undefined;
  /** Most to wait before any attempt. Default 10,000. */
  readonly maxMs?: number | undefined;
  /** Jitter: uniform in [0, 1). Default Math.random. */
  readonly random?: (() => number) | undefined;
}

/** Attempts, where `maxAttempts` says nothing else. */
export const defaultMaxAttempts = 5;

/**
 * How long to wait before an attempt, counted from 1: nothing before the first, then
 * uniform between half and all of a time that doubles, so that many that were lost at once do
 * not come back at once.
 */
export function backoffMs(attempt: number, options: BackoffOptions = {}): number {
  if (attempt <= 1) {
    return 0;
  }
  const { initialMs = 100, maxMs = 10_000, random = Math.random } = options;
  const most = Math.min(maxMs, initialMs * 2 ** (attempt - 2));
  return most * (0.5 + random() / 2);
}

/** Resolves after some time; rejects with CANCELLED when the signal aborts first. */
export function pause(ms: number, what: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(canceled(what, signal));
      return;
    }
    const onAbort = (): void => {
      stopTimer();
      reject(canceled(what, signal));
    };
    const stopTimer = systemTime.after(ms, () => {
      signal.removeEventListener("abort", onAbort);
      resolve();
    });
    signal.addEventListener("abort", onAbort, { once: true });
  });
}
