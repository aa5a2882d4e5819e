// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { pause, type TimeSource } from "@dm-env-rpc/transport/internal";
import type { Lease, Store } from "../store/store.ts";

const leaseName = "director";

/**
 * The leader's lease. One matchmaker at a time has the lease, and makes matches as long as it renews the
 * lease. Every commit of the director contains the lease. So a director that has not yet noticed the loss of
 * its lease cannot change anything.
 */
export class Leadership {
  readonly #store: Store;
  readonly #time: TimeSource;
  readonly #leaseMs: number;
  /** Identifies this process. If a response was lost, the process can acquire its own lease again. */
  readonly #holder = randomUUID();
  #lease: Lease | undefined;
  #renewedMs = 0;

  constructor(store: Store, time: TimeSource, leaseMs: number) {
    this.#store = store;
    this.#time = time;
    this.#leaseMs = leaseMs;
  }

  get lease(): Lease | undefined {
    return this.#lease;
  }

  /**
   * True until the lease expires on this process's own clock. Then another process may acquire the lease
   * immediately.
   */
  get isHeld(): boolean {
    return this.#lease !== undefined && this.#time.now() - this.#renewedMs < this.#leaseMs;
  }

  /** Acquires or renews the lease. Returns true if this process then holds the lease. */
  async hold(): Promise<boolean> {
    if (this.#lease !== undefined) {
      if (this.#time.now() - this.#renewedMs < this.#leaseMs / 3) {
        return true;
      }
      if (await this.#renew(this.#lease)) {
        return true;
      }
    }
    const now = this.#time.now();
    this.#lease = await this.#store.acquire(leaseName, this.#holder, this.#leaseMs);
    this.#renewedMs = now;
    return this.#lease !== undefined;
  }

  /**
   * Renews the lease while it is held, also while ticks are slow. Ends when the signal aborts. Never rejects.
   */
  async keep(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(this.#time, this.#leaseMs / 3, signal);
      const lease = this.#lease;
      // The error is ignored here, because a tick also notices an unavailable store.
      if (lease !== undefined) {
        await this.#renew(lease).catch(() => false);
      }
    }
  }

  async #renew(lease: Lease): Promise<boolean> {
    const now = this.#time.now();
    const isHeld = await this.#store.renew(lease, this.#leaseMs);
    if (isHeld) {
      this.#renewedMs = now;
    } else if (this.#lease === lease) {
      this.#lease = undefined;
    }
    return isHeld;
  }

  /** Forgets the lease. For use after the store has reported that the lease is lost. */
  lose(): void {
    this.#lease = undefined;
  }

  /** Releases the lease, so that another process can take over immediately. */
  async release(): Promise<void> {
    const lease = this.#lease;
    this.#lease = undefined;
    if (lease !== undefined) {
      await this.#store.release(lease);
    }
  }
}
