// SPDX-License-Identifier: Apache-2.0
import { systemTime } from "@dm-env-rpc/transport/internal";
import { canceled } from "./wait.ts";

/** Default of `maxAttempts` when a slot or a batch is recreated. */
export const defaultMaxAttempts = 5;

/** Resolves after `ms`; rejects with CANCELLED if the signal aborts first. */
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
