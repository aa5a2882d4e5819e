// SPDX-License-Identifier: Apache-2.0

/**
 * Lengths measured by `size`, in the order in which `write` reads them. The array is reused for every message, so it
 * causes no allocation.
 */
export class Sizes {
  readonly #sizes: number[] = [];
  #count = 0;
  #taken = 0;

  clear(): void {
    this.#count = 0;
    this.#taken = 0;
  }

  record(size: number): number {
    this.#sizes[this.#count++] = size;
    return size;
  }

  /** Reserves an index for a size that is known only after its content has been measured. */
  reserve(): number {
    const place = this.#count++;
    if (place === this.#sizes.length) {
      this.#sizes.push(0);
    }
    return place;
  }

  put(place: number, size: number): number {
    this.#sizes[place] = size;
    return size;
  }

  take(): number {
    return this.#sizes[this.#taken++] as number;
  }
}
