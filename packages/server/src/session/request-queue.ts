// SPDX-License-Identifier: Apache-2.0
import type { ServerLimits } from "../host/limits.ts";

/** Requests of a stream that came and are not taken yet, the first to come first. */
export class RequestQueue<Request> {
  readonly #limits: Pick<ServerLimits, "maxQueuedRequests" | "maxQueuedBytes">;
  #requests: Request[] = [];
  #next = 0;
  /** Of the requests that were added since it was empty. */
  #bytes = 0;

  constructor(limits: Pick<ServerLimits, "maxQueuedRequests" | "maxQueuedBytes">) {
    this.#limits = limits;
  }

  get size(): number {
    return this.#requests.length - this.#next;
  }

  /** Whether no more should be read. */
  get isFull(): boolean {
    const { maxQueuedRequests, maxQueuedBytes } = this.#limits;
    return this.size >= maxQueuedRequests || (this.size > 0 && this.#bytes >= maxQueuedBytes);
  }

  add(request: Request, bytes: number): void {
    this.#requests.push(request);
    this.#bytes += bytes;
  }

  /** Takes the first; undefined when there is none. */
  take(): Request | undefined {
    if (this.size === 0) return undefined;
    const request = this.#requests[this.#next];
    this.#next += 1;
    if (this.size === 0) this.clear();
    return request;
  }

  clear(): void {
    this.#requests = [];
    this.#next = 0;
    this.#bytes = 0;
  }
}
