// SPDX-License-Identifier: Apache-2.0
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { UnreadMessage } from "@dm-env-rpc/transport";

/** Limits of reading ahead. */
export interface QueueLimits {
  readonly maxQueuedRequests: number;
  readonly maxQueuedBytes: number;
}

/** Memory of a request in addition to its bytes: a closure, three objects and an ArrayBuffer. */
const requestOverheadBytes = 640;

/** A request whose size counts. */
type Sized = Pick<UnreadMessage<ProcessRequest>, "size">;

/** Undecoded requests of a stream that wait, in order, for an earlier request. */
export class RequestQueue<Request extends Sized = UnreadMessage<ProcessRequest>> {
  readonly #limits: QueueLimits;
  /** The first request has its own field: most queues have no other. */
  #first: Request | undefined;
  /** The other requests, taken ones included, until the queue is empty. */
  #others: Request[] = [];
  #next = 0;
  /** Requests added since the queue was empty. */
  #added = 0;
  /** Bytes of the requests added since the queue was empty. */
  #bytes = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#first === undefined ? 0 : 1 + this.#others.length - this.#next;
  }

  /** Memory of the queue, which keeps requests until all of them are taken. */
  get heldBytes(): number {
    return this.#bytes + this.#added * requestOverheadBytes;
  }

  /** True if reading must pause. */
  get isFull(): boolean {
    const { maxQueuedRequests, maxQueuedBytes } = this.#limits;
    return this.size >= maxQueuedRequests || (this.size > 0 && this.#bytes >= maxQueuedBytes);
  }

  add(request: Request): void {
    if (this.#first === undefined) {
      this.#first = request;
    } else {
      this.#others.push(request);
    }
    this.#added += 1;
    this.#bytes += request.size;
  }

  /** Removes and returns the first request, if any. */
  take(): Request | undefined {
    const request = this.#first;
    this.#first = this.#others[this.#next];
    if (this.#first === undefined) {
      this.clear();
    } else {
      this.#next += 1;
    }
    return request;
  }

  clear(): void {
    this.#first = undefined;
    if (this.#others.length > 0) {
      this.#others = [];
    }
    this.#next = 0;
    this.#added = 0;
    this.#bytes = 0;
  }
}
