// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";

/** A timer that calls back after a time of idleness. */
export interface IdleTimer {
  /** Starts the timer, unless it is running. */
  start(): void;
  /** Stops the timer. */
  stop(): void;
}

/** Creates a timer that calls back after `idleMs`; 0 never. */
export function createIdleTimer(time: TimeSource, idleMs: number, onIdle: () => void): IdleTimer {
  let cancel: (() => void) | undefined;
  return {
    start() {
      if (idleMs === 0 || cancel !== undefined) {
        return;
      }
      cancel = time.after(idleMs, () => {
        cancel = undefined;
        onIdle();
      });
    },
    stop() {
      cancel?.();
      cancel = undefined;
    },
  };
}
