// SPDX-License-Identifier: Apache-2.0

/** Minimum number of keys at which expired keys are forgotten. */
const leastRemembered = 1_024;

/** Keys that are remembered at least until they expire. Expired keys are forgotten when the number of keys has doubled. */
export class ExpiringKeys {
  readonly #now: () => number;
  /** Times at which the keys expire. */
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
