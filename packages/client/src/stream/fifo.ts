// SPDX-License-Identifier: Apache-2.0

/** A queue in a ring buffer that doubles when full: no allocation per entry. */
export class Fifo<T> {
  #ring: (T | undefined)[] = new Array<T | undefined>(16).fill(undefined);
  #head = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(entry: T): void {
    if (this.#length === this.#ring.length) {
      this.#grow();
    }
    this.#ring[(this.#head + this.#length) & (this.#ring.length - 1)] = entry;
    this.#length++;
  }

  /** Returns the oldest entry without removing it. */
  peek(): T | undefined {
    return this.#ring[this.#head];
  }

  /** Removes and returns the oldest entry. */
  shift(): T | undefined {
    const entry = this.#ring[this.#head];
    if (this.#length === 0) {
      return undefined;
    }
    this.#ring[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#ring.length - 1);
    this.#length--;
    return entry;
  }

  /** Removes and returns the newest entry. */
  pop(): T | undefined {
    if (this.#length === 0) {
      return undefined;
    }
    const last = (this.#head + this.#length - 1) & (this.#ring.length - 1);
    const entry = this.#ring[last];
    this.#ring[last] = undefined;
    this.#length--;
    return entry;
  }

  /** The entries, oldest first. */
  *[Symbol.iterator](): Generator<T, void, undefined> {
    for (let i = 0; i < this.#length; i++) {
      yield this.#ring[(this.#head + i) & (this.#ring.length - 1)] as T;
    }
  }

  #grow(): void {
    const { length } = this.#ring;
    const ring = new Array<T | undefined>(length * 2).fill(undefined);
    for (let i = 0; i < length; i++) {
      ring[i] = this.#ring[(this.#head + i) & (length - 1)];
    }
    this.#ring = ring;
    this.#head = 0;
  }
}
