// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf, systemTime } from "@dm-env-rpc/transport/internal";

/** How long to wait; taken by everything that waits. */
export interface WaitOptions {
  /** Gives up when aborted: a DmEnvRpcError CANCELLED of origin `client` whose cause is the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Gives up after so many milliseconds: a DmEnvRpcError DEADLINE_EXCEEDED of origin `client`. Default: never. */
  readonly timeoutMs?: number | undefined;
}

/** The error of a wait that its signal ended. */
export function canceled(what: string, signal: AbortSignal): DmEnvRpcError {
  const reason: unknown = signal.reason;
  return new DmEnvRpcError("CANCELLED", `${what} was given up: ${messageOf(reason)}`, {
    origin: "client",
    cause: reason,
  });
}

/** The error of a wait that took longer than its `timeoutMs`. */
function timedOut(what: string, timeoutMs: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "DEADLINE_EXCEEDED",
    `${what} was not answered within ${timeoutMs} ms; it may still take effect: allow more time or look at the server`,
    { origin: "client" },
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
  giveUp: (error: DmEnvRpcError) => void,
): (() => void) | undefined {
  const signal = options?.signal;
  const timeoutMs = options?.timeoutMs;
  if (signal === undefined && timeoutMs === undefined) {
    return undefined;
  }
  if (signal?.aborted === true) {
    giveUp(canceled(what, signal));
    return undefined;
  }
  const onAbort = (): void => {
    if (signal !== undefined) {
      giveUp(canceled(what, signal));
    }
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
  if (timeoutMs === undefined) {
    return () => options;
  }
  const end = performance.now() + timeoutMs;
  return () => ({ signal: options?.signal, timeoutMs: Math.max(0, end - performance.now()) });
}
