// SPDX-License-Identifier: Apache-2.0

/** Below this number of keys, expired keys are not removed. */
const leastRemembered = 1_024;

/**
 * Keys that are remembered at least until they expire. Expired keys are removed when there are twice as many keys
 * as after the last removal.
 */
export class ExpiringKeys {
  readonly #now: () => number;
  /** The time at which each key expires. */
  readonly #expiresMs = new Map<string, number>();
  #forgetAt = leastRemembered;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Number of keys that are remembered. */
  get size(): number {
    return this.#expiresMs.size;
  }

  has(key: string): boolean {
    return this.#expiresMs.has(key);
  }

  add(key: string, expiresMs: number): void {
    this.#expiresMs.set(key, expiresMs);
    if (this.#expiresMs.size >= this.#forgetAt) {
      this.#forget();
    }
  }

  delete(key: string): void {
    this.#expiresMs.delete(key);
  }

  #forget(): void {
    const nowMs = this.#now();
    for (const [key, expiresMs] of this.#expiresMs) {
      if (expiresMs < nowMs) {
        this.#expiresMs.delete(key);
      }
    }
    this.#forgetAt = Math.max(leastRemembered, 2 * this.#expiresMs.size);
  }
}
