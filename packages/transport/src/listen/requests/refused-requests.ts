// SPDX-License-Identifier: Apache-2.0

import { TokenBuckets } from "../../internal/counts/token-buckets.ts";
import { networkOf } from "../../internal/turns/network-of.ts";

/**
 * Number of HTTP/1.1 requests of a network that may be refused per second, with bursts of up to four seconds' worth. One
 * HTTP/2 connection has about the same limit (`refusedStreamBytes`).
 */
const refusedPerSecond = 256;

/** Limits the rate of refused HTTP/1.1 requests, over all ports of a listener. */
export class RefusedRequests {
  readonly #buckets: TokenBuckets;
  readonly #keyOf: (address: string) => string;

  /** @param sumsNetworks False to limit each connection, because many peers may share an address. */
  constructor(sumsNetworks: boolean, now: () => number = () => performance.now()) {
    this.#buckets = new TokenBuckets(refusedPerSecond, now);
    this.#keyOf = sumsNetworks ? networkOf : (address) => address;
  }

  /**
   * Counts a refused request.
   *
   * @param address Address and port of the peer.
   * @returns False if the limit is exceeded.
   */
  count(address: string): boolean {
    return this.#buckets.take(this.#keyOf(address));
  }
}
