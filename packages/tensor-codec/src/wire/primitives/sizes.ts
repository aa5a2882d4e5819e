// SPDX-License-Identifier: Apache-2.0

/**
 * The lengths that measuring a message found, in the order in which writing it
 * asks for them again. Kept from message to message, so that it costs no memory.
 */
export class Sizes {
  readonly #sizes: number[] = [];
  #count = 0;
  #taken = 0;

  clear(): void {
    this.#count = 0;
    this.#taken = 0;
  }

  keep(size: number): number {
    this.#sizes[this.#count++] = size;
    return size;
  }

  /** Reserves a place for a size that is known only after its content has been measured. */
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
