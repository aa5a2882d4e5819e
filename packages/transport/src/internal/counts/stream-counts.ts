// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { NetworkCounts } from "./network-counts.ts";
import type { RefusalCounts } from "./refusal-counts.ts";

/** The limits of a listener that `StreamCounts` applies. */
export interface StreamLimits {
  readonly maxStreams: number;
  readonly maxStreamsPerAddress: number;
}

const from: Readonly<Record<keyof StreamLimits, string>> = {
  maxStreams: "",
  maxStreamsPerAddress: " from one address",
};

/** Counts open streams or calls, in all and by the network of the peer, and refuses one that exceeds a limit. */
export class StreamCounts {
  readonly #noun: "streams" | "calls";
  readonly #limits: StreamLimits;
  readonly #refusals: RefusalCounts;
  readonly #byNetwork = new NetworkCounts();
  readonly #errors = new Map<keyof StreamLimits, DmEnvRpcError>();

  /** @param refusals Counts the refused streams or calls. */
  constructor(noun: "streams" | "calls", limits: StreamLimits, refusals: RefusalCounts) {
    this.#noun = noun;
    this.#limits = limits;
    this.#refusals = refusals;
  }

  /**
   * Counts one more of an address.
   *
   * @returns A function to call when the stream or call has closed, which is idempotent, or the error that refuses it.
   */
  open(address: string): (() => void) | DmEnvRpcError {
    if (this.#byNetwork.total >= this.#limits.maxStreams) {
      return this.#refusal("maxStreams");
    }
    if (this.#byNetwork.of(address) >= this.#limits.maxStreamsPerAddress) {
      return this.#refusal("maxStreamsPerAddress");
    }
    return this.#byNetwork.add(address);
  }

  /** Returns the error of a limit. All refusals share it, because creating stacks for each would take much of a flood's time. */
  #refusal(limit: keyof StreamLimits): DmEnvRpcError {
    this.#refusals.count(limit);
    let error = this.#errors.get(limit);
    if (error === undefined) {
      const expected = `expected at most ${this.#limits[limit]} at a time${from[limit]}`;
      error = new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `too many ${this.#noun}: ${expected}, received one more; close some, or try again later (limit: ${limit})`,
      );
      this.#errors.set(limit, error);
    }
    return error;
  }
}
