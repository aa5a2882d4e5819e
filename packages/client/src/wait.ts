// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { messageOf, systemTime } from "@dm-env-rpc/transport/internal";

/** How long to wait; taken by everything that waits. */
export interface WaitOptions {
  /** Gives up when aborted: a ConnectError `Canceled` whose cause is the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Gives up after so many milliseconds: a ConnectError `DeadlineExceeded`. Default: never. */
  readonly timeoutMs?: number | undefined;
}

/** The error of a wait that its signal ended. */
export function canceled(what: string, signal: AbortSignal): ConnectError {
  const reason: unknown = signal.reason;
  return new ConnectError(
    `${what} was given up: ${messageOf(reason)}`,
    Code.Canceled,
    undefined,
    [],
    reason,
  );
}

/** The error of a wait that took longer than its `timeoutMs`. */
function timedOut(what: string, timeoutMs: number): ConnectError {
  return new ConnectError(
    `${what} was not answered within ${timeoutMs} ms; it may still take effect: allow more time or look at the server`,
    Code.DeadlineExceeded,
  );
}

/**
 * Watches the signal and the clock of a wait until the function that it returns is called.
 * Returns undefined when there is nothing to watch; calls `giveUp` at once when the
 * signal is aborted already.
 */
export function watch(
  what: string,
  options: WaitOptions | undefined,
  giveUp: (error: ConnectError) => void,
): (() => void) | undefined {
  const signal = options?.signal;
  const timeoutMs = options?.timeoutMs;
  if (signal === undefined && timeoutMs === undefined) return undefined;
  if (signal?.aborted === true) {
    giveUp(canceled(what, signal));
    return undefined;
  }
  const onAbort = (): void => {
    if (signal !== undefined) giveUp(canceled(what, signal));
  };
  signal?.addEventListener("abort", onAbort, { once: true });
  const stopTimer =
    timeoutMs === undefined
      ? undefined
      : systemTime.after(timeoutMs, () => giveUp(timedOut(what, timeoutMs)));
  return () => {
    signal?.removeEventListener("abort", onAbort);
    stopTimer?.();
  };
}

/** Waits for a promise as long as the options allow; what it waits for goes on. */
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

/** For several waits under one `timeoutMs`: gives each the time that is left. */
export function timeLeft(options: WaitOptions | undefined): () => WaitOptions | undefined {
  const timeoutMs = options?.timeoutMs;
  if (timeoutMs === undefined) return () => options;
  const end = performance.now() + timeoutMs;
  return () => ({ signal: options?.signal, timeoutMs: Math.max(0, end - performance.now()) });
}
