// SPDX-License-Identifier: Apache-2.0

/** Limits of reading ahead. */
export interface QueueLimits {
  readonly maxQueuedRequests: number;
  readonly maxQueuedBytes: number;
}

/** Requests of a stream that wait for an earlier one, in order. */
export class RequestQueue<Request> {
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

  /** True if reading must pause. */
  get isFull(): boolean {
    const { maxQueuedRequests, maxQueuedBytes } = this.#limits;
    return this.size >= maxQueuedRequests || (this.size > 0 && this.#bytes >= maxQueuedBytes);
  }

  add(request: Request, bytes: number): void {
    this.#requests.push(request);
    this.#bytes += bytes;
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
