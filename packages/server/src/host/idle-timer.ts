// SPDX-License-Identifier: Apache-2.0
import type { TimeSource } from "@dm-env-rpc/transport/internal";

/** Calls back when something has been idle for some time. */
export interface IdleTimer {
  /** It is idle from now on, unless it was already. */
  start(): void;
  /** It is idle no more. */
  stop(): void;
}

/** Makes a timer that waits for `idleMs`; 0 never calls back. */
export function createIdleTimer(time: TimeSource, idleMs: number, onIdle: () => void): IdleTimer {
  let cancel: (() => void) | undefined;
  return {
    start() {
      if (idleMs === 0 || cancel !== undefined) return;
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
