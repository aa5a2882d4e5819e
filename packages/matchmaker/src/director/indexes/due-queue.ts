// SPDX-License-Identifier: Apache-2.0

/** An entry of the heap; setting its key again replaces it. */
interface Entry {
  readonly key: string;
  readonly dueMs: number;
}

/** Keys, each with the time at which it is due. Setting, deleting and taking cost O(log n). */
export class DueQueue {
  readonly #due = new Map<string, Entry>();
  /**
   * A binary heap with the earliest entry on top. Entries of deleted keys are dropped when they
   * reach the top, or once they outnumber the others.
   */
  #heap: Entry[] = [];

  set(key: string, dueMs: number): void {
    const entry = { key, dueMs };
    this.#due.set(key, entry);
    this.#heap.push(entry);
    this.#rise(this.#heap.length - 1);
    if (this.#heap.length > 2 * this.#due.size + 16) {
      // A sorted list is a heap.
      this.#heap = [...this.#due.values()].sort((a, b) => a.dueMs - b.dueMs);
    }
  }

  delete(key: string): void {
    this.#due.delete(key);
  }

  /** Removes the keys that are due and returns them. */
  takeDue(nowMs: number): string[] {
    const taken: string[] = [];
    for (
      let [first] = this.#heap;
      first !== undefined && first.dueMs <= nowMs;
      [first] = this.#heap
    ) {
      this.#removeFirst();
      if (this.#due.get(first.key) === first) {
        this.#due.delete(first.key);
        taken.push(first.key);
      }
    }
    return taken;
  }

  #removeFirst(): void {
    const last = this.#heap.pop();
    if (last !== undefined && this.#heap.length > 0) {
      this.#heap[0] = last;
      this.#sink();
    }
  }

  #dueAt(index: number): number {
    return this.#heap[index]?.dueMs ?? Number.POSITIVE_INFINITY;
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#heap[one], this.#heap[other]];
    if (a !== undefined && b !== undefined) {
      this.#heap[one] = b;
      this.#heap[other] = a;
    }
  }

  #rise(from: number): void {
    for (let at = from; at > 0; ) {
      const parent = (at - 1) >> 1;
      if (this.#dueAt(parent) <= this.#dueAt(at)) {
        return;
      }
      this.#swap(at, parent);
      at = parent;
    }
  }

  #sink(): void {
    for (let at = 0; ; ) {
      const [left, right] = [2 * at + 1, 2 * at + 2];
      const next = this.#dueAt(right) < this.#dueAt(left) ? right : left;
      if (this.#dueAt(at) <= this.#dueAt(next)) {
        return;
      }
      this.#swap(at, next);
      at = next;
    }
  }
}
