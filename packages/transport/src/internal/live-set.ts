// SPDX-License-Identifier: Apache-2.0

/** A member of a `LiveSet`. */
export interface Member {
  /** Index of the member in its set; -1 outside. Only the set changes it. */
  index: number;
}

/** With fewer items than this, no gaps are closed. */
const fewItems = 32;

/**
 * A set of objects that are added and deleted often, in the order in which they were added.
 *
 * V8 gives a `Set` or `Map` a new table after some deletions, and each old table refers to its members and to the next
 * table. So once one table has become old, members that were deleted long ago survive all minor collections, together
 * with everything that they refer to. A `LiveSet` forgets a deleted member at once.
 */
export class LiveSet<Item extends Member> implements Iterable<Item> {
  /** The members, with gaps where members were deleted. */
  readonly #items: (Item | undefined)[] = [];
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(member: Item): void {
    if (member.index < 0) {
      member.index = this.#items.length;
      this.#items.push(member);
      this.#size += 1;
    }
  }

  /** Deletes a member. Does nothing if the set does not have it. */
  delete(member: Item): void {
    const { index } = member;
    if (this.#items[index] !== member) {
      return;
    }
    this.#items[index] = undefined;
    member.index = -1;
    this.#size -= 1;
    if (this.#items.length > fewItems && this.#items.length > 2 * this.#size) {
      this.#closeGaps();
    }
  }

  /** Iterates over the members that the set has now. Members may be added and deleted meanwhile. */
  [Symbol.iterator](): Iterator<Item> {
    return this.#items.filter((item) => item !== undefined).values();
  }

  #closeGaps(): void {
    let index = 0;
    for (const item of this.#items) {
      if (item !== undefined) {
        item.index = index;
        this.#items[index] = item;
        index += 1;
      }
    }
    this.#items.length = index;
  }
}
