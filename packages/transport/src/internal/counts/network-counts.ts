// SPDX-License-Identifier: Apache-2.0

import { networkOf } from "../turns/network-of.ts";
import { Counts } from "./counts.ts";

/** Counts open connections or calls by the peer's network. */
export class NetworkCounts {
  readonly #counts = new Counts<string>();

  /** Sum of the counts of all networks. */
  get total(): number {
    return this.#counts.total;
  }

  /** Returns the count of an address's network. */
  of(address: string): number {
    return this.#counts.of(networkOf(address));
  }

  /**
   * Counts one more.
   *
   * @returns A function to call when the connection or call has closed. Idempotent.
   */
  add(address: string): () => void {
    return this.#counts.add(networkOf(address));
  }
}
