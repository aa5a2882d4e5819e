// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { networkOf } from "../turns/network-of.ts";
import { RefusalCounts } from "./refusal-counts.ts";
import { TokenBuckets } from "./token-buckets.ts";

/** Options of `RequestRates`. */
export interface RequestRatesOptions {
  readonly now?: (() => number) | undefined;
  /** Counts refused requests. */
  readonly refusals?: RefusalCounts | undefined;
}

/** Limits the request rate of each address with a token bucket, which refills with time. */
export class RequestRates {
  readonly #perSecond: number;
  readonly #refusals: RefusalCounts;
  readonly #buckets: TokenBuckets;
  #error: DmEnvRpcError | undefined;

  /** @param perSecond Requests per second that one address may send; 0 for no limit. */
  constructor(perSecond: number, options: RequestRatesOptions = {}) {
    const { now = () => performance.now(), refusals = new RefusalCounts() } = options;
    this.#perSecond = perSecond;
    this.#refusals = refusals;
    this.#buckets = new TokenBuckets(perSecond, now);
  }

  /**
   * Counts a request of an address. Returns the error that refuses it if the address has sent too
   * many; otherwise undefined.
   */
  refusal(address: string): DmEnvRpcError | undefined {
    return this.refusalOf(networkOf(address));
  }

  /** Counts a request of a network (as `networkOf` returns it), and returns the error as `refusal` does. */
  refusalOf(network: string): DmEnvRpcError | undefined {
    if (this.#perSecond === 0 || this.#buckets.take(network)) {
      return undefined;
    }
    this.#refusals.count("maxRequestsPerSecond");
    // All refusals share one error, because creating stacks for each would take a quarter of the time of a flood.
    this.#error ??= new DmEnvRpcError(
      "RESOURCE_EXHAUSTED",
      `too many requests: expected at most ${this.#perSecond} per second from one address (steps are not counted), received more; send fewer, or try again in a second (limit: maxRequestsPerSecond)`,
    );
    return this.#error;
  }
}
