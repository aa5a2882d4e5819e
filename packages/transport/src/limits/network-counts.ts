// SPDX-License-Identifier: Apache-2.0
import { networkOf } from "../internal/network-of.ts";

/** Counts open connections by the peer's network. */
export class NetworkCounts {
  readonly #counts = new Map<string, number>();

  /** Returns the number of open connections from the network of an address. */
  of(address: string): number {
    return this.#counts.get(networkOf(address)) ?? 0;
  }

  /**
   * Counts a connection.
   *
   * @returns A function to call once, when the connection has closed.
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
