// SPDX-License-Identifier: Apache-2.0
import { pause, type TimeSource, toError } from "@dm-env-rpc/transport/internal";

import type { Emit } from "../model/events.ts";
import { isStoreError, type Store } from "../store/store.ts";
import type { Replica } from "./replica.ts";

/** Delay before an unavailable store is retried. */
const retryMs = 500;

/**
 * Keeps the replica up to date with the store until the signal aborts. Other matchmakers may also write
 * to the store. Never rejects.
 *
 * @param onSynced Called after each update. If it rejects, a failure of the store is reported.
 */
export async function followStore(
  store: Store,
  replica: Replica,
  time: TimeSource,
  signal: AbortSignal,
  emit: Emit,
  onSynced: () => Promise<void>,
): Promise<void> {
  let isDue = false;
  let wake = (): void => {};
  const notice = (): void => {
    isDue = true;
    wake();
  };
  const unsubscribe = store.onChange(notice);
  signal.addEventListener("abort", notice, { once: true });
  while (!signal.aborted) {
    if (!isDue) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
    isDue = false;
    if (signal.aborted) {
      break;
    }
    try {
      await replica.sync();
      await onSynced();
    } catch (error) {
      emit({ kind: "store-failed", error: toError(error) });
      if (!isStoreError(error)) {
        continue;
      }
      isDue = true;
      await pause(time, retryMs, signal);
    }
  }
  unsubscribe();
}
