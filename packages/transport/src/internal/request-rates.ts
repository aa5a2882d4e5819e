// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { networkOf } from "./network-of.ts";
import { RefusalCounts } from "./refusal-counts.ts";

/** Seconds' worth of requests that an address may send at once after a pause. */
const burstSeconds = 4;

/** Minimum number of remembered addresses at which quiet addresses are forgotten. */
const leastRemembered = 1_024;

interface Bucket {
  requests: number;
  atMs: number;
}

/** Options of `RequestRates`. */
export interface RequestRatesOptions {
  readonly now?: (() => number) | undefined;
  /** Counts refused requests. */
  readonly refusals?: RefusalCounts | undefined;
}

/** Limits the request rate of each address with a token bucket, which refills with time. */
export class RequestRates {
  readonly #perSecond: number;
  readonly #now: () => number;
  readonly #refusals: RefusalCounts;
  readonly #buckets = new Map<string, Bucket>();
  #forgetAt = leastRemembered;
  #error: DmEnvRpcError | undefined;

  /** @param perSecond Requests per second that one address may send; 0 for no limit. */
  constructor(perSecond: number, options: RequestRatesOptions = {}) {
    const { now = () => performance.now(), refusals = new RefusalCounts() } = options;
    this.#perSecond = perSecond;
    this.#now = now;
    this.#refusals = refusals;
  }

  /**
   * Counts a request of an address. Returns the error that refuses it if the address has sent too
   * many; otherwise undefined.
   */
  refusal(address: string): DmEnvRpcError | undefined {
    return this.refusalOf(networkOf(address));
  }

  /** Counts a request of a network (`networkOf`) as `refusal` does. */
  refusalOf(network: string): DmEnvRpcError | undefined {
    if (this.#perSecond === 0) {
      return undefined;
    }
    const nowMs = this.#now();
    const bucket = this.#bucketOf(network, nowMs);
    bucket.requests = this.#left(bucket, nowMs);
    bucket.atMs = nowMs;
    if (bucket.requests >= 1) {
      bucket.requests -= 1;
      return undefined;
    }
    this.#refusals.count("maxRequestsPerSecond");
    // The same for all: a flood would spend a quarter of its time on the stacks of errors.
    this.#error ??= new DmEnvRpcError(
      "RESOURCE_EXHAUSTED",
      `too many requests: expected at most ${this.#perSecond} per second from one address (steps are not counted), received more; send fewer, or try again in a second (limit: maxRequestsPerSecond)`,
    );
    return this.#error;
  }

  /** Number of addresses that are remembered. */
  get size(): number {
    return this.#buckets.size;
  }

  #left({ requests, atMs }: Bucket, nowMs: number): number {
    const refilled = requests + ((nowMs - atMs) / 1_000) * this.#perSecond;
    return Math.min(this.#perSecond * burstSeconds, refilled);
  }

  #bucketOf(network: string, nowMs: number): Bucket {
    const known = this.#buckets.get(network);
    if (known !== undefined) {
      return known;
    }
    if (this.#buckets.size >= this.#forgetAt) {
      this.#forget(nowMs);
    }
    const bucket = { requests: this.#perSecond * burstSeconds, atMs: nowMs };
    this.#buckets.set(network, bucket);
    return bucket;
  }

  /** Forgets the addresses whose buckets are full again. */
  #forget(nowMs: number): void {
    for (const [network, bucket] of this.#buckets) {
      if (this.#left(bucket, nowMs) === this.#perSecond * burstSeconds) {
        this.#buckets.delete(network);
      }
    }
    this.#forgetAt = Math.max(leastRemembered, 2 * this.#buckets.size);
  }
}
