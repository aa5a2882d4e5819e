// SPDX-License-Identifier: Apache-2.0

import { randomUUID } from "node:crypto";
import { pause, type TimeSource } from "@dm-env-rpc/transport/internal";
import type { Lease, Store } from "../store/store.ts";

const leaseName = "director";

/**
 * Who makes the matches: one matchmaker at a time, as long as it renews its lease.
 * Every commit of the director names the lease, so that one who has lost it
 * and does not know it yet changes nothing.
 */
export class Leadership {
  readonly #store: Store;
  readonly #time: TimeSource;
  readonly #leaseMs: number;
  /** Of this process: a lease that it took without hearing of it is its own. */
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

  /** True while the lease has not run out by this process's own clock; another may have it as soon as it has. */
  get isHeld(): boolean {
    return this.#lease !== undefined && this.#time.now() - this.#renewedMs < this.#leaseMs;
  }

  /** Takes the lease or holds it. Returns whether it is held. */
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

  /** Renews the lease while it is held, however long the work under it takes, until the signal aborts. Never rejects. */
  async keep(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await pause(this.#time, this.#leaseMs / 3, signal);
      const lease = this.#lease;
      // A store that cannot be reached is noticed by the work, too.
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

  /** Is told that the lease is lost. */
  lose(): void {
    this.#lease = undefined;
  }

  /** Lets another take over at once. */
  async release(): Promise<void> {
    const lease = this.#lease;
    this.#lease = undefined;
    if (lease !== undefined) {
      await this.#store.release(lease);
    }
  }
}
