// SPDX-License-Identifier: Apache-2.0
import { networkOf } from "./network-of.ts";

/** Counts open connections or calls by the peer's network. */
export class NetworkCounts {
  readonly #counts = new Map<string, number>();

  /** Returns the count of an address's network. */
  of(address: string): number {
    return this.#counts.get(networkOf(address)) ?? 0;
  }

  /**
   * Counts one more.
   *
   * @returns A function to call once, when it has closed.
   */
  add(address: string): () => void {
    const network = networkOf(address);
    this.#counts.set(network, (this.#counts.get(network) ?? 0) + 1);
    return () => {
      const left = (this.#counts.get(network) ?? 1) - 1;
      if (left === 0) {
        this.#counts.delete(network);
      } else {
        this.#counts.set(network, left);
      }
    };
  }
}
