// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { UnreadMessage } from "@dm-env-rpc/transport";

/** Limits of reading ahead. */
export interface QueueLimits {
  readonly maxQueuedRequests: number;
  readonly maxQueuedBytes: number;
}

/** Memory of a request in addition to its bytes: three objects and an ArrayBuffer. */
const requestOverheadBytes = 256;

/** A request whose size counts. */
type Sized = Pick<UnreadMessage<ProcessRequest>, "size">;

/** Undecoded requests of a stream that wait, in order, for an earlier request. */
export class RequestQueue<Request extends Sized = UnreadMessage<ProcessRequest>> {
  readonly #limits: QueueLimits;
  #requests: Request[] = [];
  #next = 0;
  /** Bytes of the requests added since the queue was empty. */
  #bytes = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#requests.length - this.#next;
  }

  /** Memory of the queue, which keeps requests until all of them are taken. */
  get heldBytes(): number {
    return this.#bytes + this.#requests.length * requestOverheadBytes;
  }

  /** True if reading must pause. */
  get isFull(): boolean {
    const { maxQueuedRequests, maxQueuedBytes } = this.#limits;
    return this.size >= maxQueuedRequests || (this.size > 0 && this.#bytes >= maxQueuedBytes);
  }

  add(request: Request): void {
    this.#requests.push(request);
    this.#bytes += request.size;
  }

  /** Removes and returns the first request, if any. */
  take(): Request | undefined {
    if (this.size === 0) {
      return undefined;
    }
    const request = this.#requests[this.#next];
    this.#next += 1;
    if (this.size === 0) {
      this.clear();
    }
    return request;
  }

  clear(): void {
    this.#requests = [];
    this.#next = 0;
    this.#bytes = 0;
  }
}
