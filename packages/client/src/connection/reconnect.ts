// SPDX-License-Identifier: Apache-2.0

import { type BackoffOptions, backoffMs } from "@dm-env-rpc/transport/internal";
import { pause } from "../stream/backoff.ts";
import type { WorldFate } from "../stream/faults.ts";

/** Default of `maxAttempts`: about five minutes, because most delays lie between half of `maxMs` and `maxMs`. */
const reconnectAttempts = 45;

/** Progress of a reconnect. */
export type ReconnectStatus =
  | { readonly kind: "reconnecting"; readonly attempt: number; readonly error: Error }
  | { readonly kind: "reconnected"; readonly attempt: number; readonly world: WorldFate }
  | { readonly kind: "closed"; readonly error: Error };

/** Options of reconnecting a lost connection. */
export interface ReconnectOptions extends BackoffOptions {
  /** Number of attempts; if all fail, the connection is closed. Default 45, which take about five minutes. */
  readonly maxAttempts?: number | undefined;
  /**
   * Asks a server of @dm-env-rpc/server to hold the agent's seat while the connection is lost,
   * according to `onDrop` of the world. Joins then send a random `seat_key`, which other servers may
   * refuse. The seat of a join token is held without a key, too, but only once the server has noticed the loss
   * of the connection. Default false; true for `joinMatch`.
   */
  readonly keepSeat?: boolean | undefined;
  /** Called with every attempt and its result. Must not throw. */
  readonly onStatus?: ((status: ReconnectStatus) => void) | undefined;
}

/** Tries until an attempt succeeds. Returns undefined if all attempts fail or the signal is aborted. */
export async function attempts<T>(
  attempt: () => Promise<T>,
  options: ReconnectOptions,
  cause: Error,
  signal: AbortSignal,
): Promise<{ readonly value: T; readonly attempt: number } | undefined> {
  const { maxAttempts = reconnectAttempts, onStatus } = options;
  let error = cause;
  for (let count = 1; count <= maxAttempts && !signal.aborted; count++) {
    onStatus?.({ kind: "reconnecting", attempt: count, error });
    try {
      // Wait before the first attempt, too: otherwise, all clients would reconnect to a restarting
      // server at once.
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
