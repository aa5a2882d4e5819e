// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf, systemTime } from "@dm-env-rpc/transport/internal";

/** Options of every call that waits. */
export interface WaitOptions {
  /**
   * Ends the wait when aborted: a DmEnvRpcError CANCELLED of origin `client` whose cause is the
   * signal's reason.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Ends the wait after this many milliseconds: a DmEnvRpcError DEADLINE_EXCEEDED of origin
   * `client`. Default: never.
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * Creates the error of a wait that its signal ended.
 *
 * @param what The canceled operation, as the subject of the message.
 */
export function canceled(what: string, signal: AbortSignal): DmEnvRpcError {
  const reason: unknown = signal.reason;
  return new DmEnvRpcError("CANCELLED", `${what} was canceled: ${messageOf(reason)}`, {
    origin: "client",
    cause: reason,
  });
}

/** Creates the error of a wait that took longer than its `timeoutMs`. */
function timedOut(what: string, timeoutMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `${what} timed out after ${timeoutMs} ms; open requests may still take effect: allow more time, or check the server`,
    { origin: "client" },
  );
}

/**
 * Watches the signal and the time limit of a wait. Calls `onEnd` at once if the signal is already
 * aborted.
 *
 * @param what The operation, as the subject of error messages.
 * @returns A function that stops watching; undefined if there is nothing to watch.
 */
export function watch(
  what: string,
  options: WaitOptions | undefined,
  onEnd: (error: DmEnvRpcError) => void,
): (() => void) | undefined {
  const signal = options?.signal;
  const timeoutMs = options?.timeoutMs;
  if (signal === undefined && timeoutMs === undefined) {
    return undefined;
  }
  if (signal?.aborted === true) {
    onEnd(canceled(what, signal));
    return undefined;
  }
  const onAbort = (): void => {
    if (signal !== undefined) {
      onEnd(canceled(what, signal));
    }
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  const stopTimer =
    timeoutMs === undefined
      ? undefined
      : systemTime.after(timeoutMs, () => onEnd(timedOut(what, timeoutMs)));
  return () => {
    signal?.removeEventListener("abort", onAbort);
    stopTimer?.();
  };
}

/** Waits for a promise as long as the options allow; the awaited work continues. */
export function waitFor<T>(
  promise: Promise<T>,
  what: string,
  options: WaitOptions | undefined,
): Promise<T> {
  return new Promise<T>((resolve, reject) => {
    const stop = watch(what, options, reject);
    promise.then(resolve, reject).finally(() => stop?.());
  });
}

/**
 * Shares one `timeoutMs` among several waits.
 *
 * @returns A function that returns the options with the remaining time.
 */
export function timeLeft(options: WaitOptions | undefined): () => WaitOptions | undefined {
  const timeoutMs = options?.timeoutMs;
  if (timeoutMs === undefined) {
    return () => options;
  }
  const end = performance.now() + timeoutMs;
  return () => ({ signal: options?.signal, timeoutMs: Math.max(0, end - performance.now()) });
}
