// SPDX-License-Identifier: Apache-2.0

/** A queue of any length whose memory is reused. `shift` of a long array would move all its items. */
export class Queue<Item> {
  #items: (Item | undefined)[] = [];
  #next = 0;

  get size(): number {
    return this.#items.length - this.#next;
  }

  get first(): Item | undefined {
    return this.#items[this.#next];
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  shift(): Item | undefined {
    const item = this.#items[this.#next];
    if (item === undefined) {
      return undefined;
    }
    this.#items[this.#next] = undefined;
    this.#next += 1;
    if (2 * this.#next >= this.#items.length) {
      this.#items.copyWithin(0, this.#next);
      this.#items.length -= this.#next;
      this.#next = 0;
    }
    return item;
  }
}
