// SPDX-License-Identifier: Apache-2.0

/** Counts by key. A key whose count has returned to zero is forgotten. */
export class Counts<Key> {
  readonly #counts = new Map<Key, number>();
  #total = 0;

  /** Sum of the counts of all keys. */
  get total(): number {
    return this.#total;
  }

  /** Returns the count of a key. */
  of(key: Key): number {
    return this.#counts.get(key) ?? 0;
  }

  /** The keys with a count above zero. */
  keys(): Iterable<Key> {
    return this.#counts.keys();
  }

  /**
   * Counts one more.
   *
   * @returns A function that counts one less. Idempotent.
   */
  add(key: Key): () => void {
    this.#counts.set(key, this.of(key) + 1);
    this.#total += 1;
    let isCounted = true;
    return () => {
      if (!isCounted) {
        return;
      }
      isCounted = false;
      this.#total -= 1;
      const left = this.of(key) - 1;
      if (left === 0) {
        this.#counts.delete(key);
      } else {
        this.#counts.set(key, left);
      }
    };
  }
}
