// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { useEffect, useRef, useState } from "preact/hooks";

/** The state of a stream of responses. */
export type StreamStatus =
  | { readonly kind: "connecting" | "live" | "paused" | "ended" }
  | { readonly kind: "failed"; readonly message: string; readonly isFinal: boolean };

const retryMs = 1_000;

/** Codes of errors after which a retry would fail, too. */
const finalCodes: ReadonlySet<Code> = new Set([
  Code.PermissionDenied,
  Code.Unauthenticated,
  Code.NotFound,
  Code.InvalidArgument,
  Code.Unimplemented,
]);

/**
 * Reads a server's stream while the page is visible, and retries after a temporary failure. A hidden page holds no
 * connection, because a browser opens only a few to each server.
 *
 * @param key Identifies the stream: a new key opens another stream.
 */
export function useStream<T>(
  key: string,
  open: (signal: AbortSignal) => AsyncIterable<T>,
  take: (response: T) => void,
  isPaused = false,
): StreamStatus {
  const [status, setStatus] = useState<StreamStatus>({ kind: "connecting" });
  const isVisible = useVisible();
  const latest = useRef({ open, take });
  latest.current = { open, take };
  useEffect(() => {
    if (isPaused || !isVisible) {
      setStatus({ kind: "paused" });
      return;
    }
    const ended = new AbortController();
    void read(
      (signal) => latest.current.open(signal),
      (response) => latest.current.take(response),
      setStatus,
      ended.signal,
    );
    return () => ended.abort();
  }, [key, isPaused, isVisible]);
  return status;
}

async function read<T>(
  open: (signal: AbortSignal) => AsyncIterable<T>,
  take: (response: T) => void,
  setStatus: (status: StreamStatus) => void,
  signal: AbortSignal,
): Promise<void> {
  setStatus({ kind: "connecting" });
  while (!signal.aborted) {
    try {
      let isLive = false;
      for await (const response of open(signal)) {
        if (signal.aborted) {
          return;
        }
        take(response);
        if (!isLive) {
          isLive = true;
          setStatus({ kind: "live" });
        }
      }
      if (!signal.aborted) {
        setStatus({ kind: "ended" });
      }
      return;
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      const { code, rawMessage } = ConnectError.from(error);
      const isFinal = finalCodes.has(code);
      setStatus({ kind: "failed", message: rawMessage, isFinal });
      if (isFinal) {
        return;
      }
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs));
  }
}

function useVisible(): boolean {
  const [isVisible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const change = (): void => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", change);
    return () => document.removeEventListener("visibilitychange", change);
  }, []);
  return isVisible;
}
