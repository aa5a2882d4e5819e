// SPDX-License-Identifier: Apache-2.0

/** A key in the heap. */
interface Entry {
  readonly key: string;
  readonly dueMs: number;
  /** Index in the heap. */
  at: number;
}

/** Keys, each with the time at which the key is due. Setting, deleting and taking a key cost O(log n). */
export class DueQueue {
  readonly #entries = new Map<string, Entry>();
  /** A binary heap with the earliest entry on top. */
  readonly #heap: Entry[] = [];

  /** Sets the time of a key, or replaces its time if the key has one. */
  set(key: string, dueMs: number): void {
    this.delete(key);
    const entry = { key, dueMs, at: this.#heap.length };
    this.#entries.set(key, entry);
    this.#heap.push(entry);
    this.#rise(entry);
  }

  delete(key: string): void {
    const entry = this.#entries.get(key);
    if (entry !== undefined) {
      this.#remove(entry);
    }
  }

  /** Removes the keys that are due and returns them, earliest first. */
  takeDue(nowMs: number): string[] {
    const taken: string[] = [];
    for (
      let [first] = this.#heap;
      first !== undefined && first.dueMs <= nowMs;
      [first] = this.#heap
    ) {
      this.#remove(first);
      taken.push(first.key);
    }
    return taken;
  }

  /** Removes an entry; the last entry of the heap takes its place. */
  #remove(entry: Entry): void {
    this.#entries.delete(entry.key);
    const last = this.#heap.pop();
    if (last === undefined || last === entry) {
      return;
    }
    last.at = entry.at;
    this.#heap[last.at] = last;
    this.#rise(last);
    this.#sink(last);
  }

  #rise(entry: Entry): void {
    for (;;) {
      // The top has no parent.
      const parent = this.#heap[(entry.at - 1) >> 1];
      if (parent === undefined || parent.dueMs <= entry.dueMs) {
        return;
      }
      this.#swap(entry, parent);
    }
  }

  #sink(entry: Entry): void {
    for (;;) {
      const child = this.#earlierChild(entry);
      if (child === undefined || entry.dueMs <= child.dueMs) {
        return;
      }
      this.#swap(entry, child);
    }
  }

  #earlierChild({ at }: Entry): Entry | undefined {
    const left = this.#heap[2 * at + 1];
    const right = this.#heap[2 * at + 2];
    return left !== undefined && right !== undefined && right.dueMs < left.dueMs ? right : left;
  }

  #swap(one: Entry, other: Entry): void {
    [one.at, other.at] = [other.at, one.at];
    this.#heap[one.at] = one;
    this.#heap[other.at] = other;
  }
}
