// SPDX-License-Identifier: Apache-2.0

import { type BackoffOptions, backoffMs, defaultMaxAttempts, pause } from "../stream/backoff.ts";
import type { WorldFate } from "../stream/faults.ts";

/** How a connection that makes itself again is getting on. */
export type ReconnectStatus =
  | { readonly kind: "reconnecting"; readonly attempt: number; readonly error: Error }
  | { readonly kind: "reconnected"; readonly attempt: number; readonly world: WorldFate }
  | { readonly kind: "closed"; readonly error: Error };

/** How a connection that is lost is made again. */
export interface ReconnectOptions extends BackoffOptions {
  /**
   * Asks a server of @dm-env-rpc/server to hold the agent's seat meanwhile, as its world's `onDrop` says: joins send a random
   * `seat_key`, which other servers may refuse. A join token needs none: it takes its seat again by itself. Default false.
   */
  readonly keepSeat?: boolean | undefined;
  /** Is told of every attempt and of how it ends. Must not throw. */
  readonly onStatus?: ((status: ReconnectStatus) => void) | undefined;
}

/**
 * Tries until an attempt succeeds. Undefined when none did, or the signal was aborted.
 */
export async function attempts<T>(
  attempt: () => Promise<T>,
  options: ReconnectOptions,
  cause: Error,
  signal: AbortSignal,
): Promise<{ readonly value: T; readonly attempt: number } | undefined> {
  const { maxAttempts = defaultMaxAttempts, onStatus } = options;
  let error = cause;
  for (let count = 1; count <= maxAttempts && !signal.aborted; count++) {
    onStatus?.({ kind: "reconnecting", attempt: count, error });
    try {
      // An attempt at once is what a server that is restarting sees from everybody: wait before the first, too.
      await pause(backoffMs(count + 1, options), "reconnecting", signal);
      return { value: await attempt(), attempt: count };
    } catch (caught) {
      if (caught instanceof Error) {
        error = caught;
      }
    }
  }
  return undefined;
}
