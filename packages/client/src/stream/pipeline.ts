// SPDX-License-Identifier: Apache-2.0

import { unpackStatus } from "@dm-env-rpc/tensor-codec/proto";
import type { Malformed, ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { ClientStream, StreamReceiver } from "@dm-env-rpc/transport";
import { type Exchange, type ResponseTo, SendCall } from "./call.ts";
import {
  closing,
  lost,
  malformed,
  notEncoded,
  tooManyWaiting,
  unrequested,
  unsent,
  wrongKind,
} from "./faults.ts";
import { Fifo } from "./fifo.ts";
import type { WaitOptions } from "./wait.ts";

/**
 * Observes the messages of a connection, in order. Messages are borrowed: their tensors are valid
 * only during the call and must not be modified.
 */
export interface MessageObserver {
  /** Called with a request that is being sent. Must not throw. */
  onRequest(request: ProcessRequest): void;
  /** Called with each response, including errors, before it is processed. Must not throw. */
  onResponse(response: ProcessResponse): void;
}

/** Limits of a pipeline. */
export interface PipelineLimits {
  readonly maxInFlight: number;
  readonly maxWaiting: number;
}

/** Dependencies of a pipeline. */
export interface PipelineParts {
  readonly peer: string;
  readonly limits: PipelineLimits;
  /** Observers of every message. The list may change later. */
  readonly observers: readonly MessageObserver[];
  /** Takes over the open exchanges when the stream is lost. Default: they fail. */
  readonly onLost?: ((cause: Error | undefined, open: readonly Exchange[]) => void) | undefined;
}

/**
 * The requests of one stream. They are sent in the order of the calls, with as many in flight as the
 * window allows, and each response is passed to the oldest open request.
 */
export class Pipeline implements StreamReceiver<ProcessResponse> {
  /** Resolves when the stream has closed, with the error if it was lost or aborted. */
  readonly closed: Promise<Error | undefined>;
  readonly #stream: ClientStream;
  /** Name of the server in errors. */
  readonly peer: string;
  readonly #limits: PipelineLimits;
  readonly #observers: readonly MessageObserver[];
  readonly #onLost: PipelineParts["onLost"];
  readonly #inFlight = new Fifo<Exchange>();
  readonly #waiting = new Fifo<Exchange>();
  #writable = true;
  #state: "open" | "draining" | "ended" | "failed" = "open";
  #failure: Error | undefined;
  #onClosed!: (error: Error | undefined) => void;

  constructor(stream: ClientStream, parts: PipelineParts) {
    this.#stream = stream;
    this.peer = parts.peer;
    this.#limits = parts.limits;
    this.#observers = parts.observers;
    this.#onLost = parts.onLost;
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
    stream.start(this);
  }

  /** True if no request is in flight or waiting to be sent. */
  get idle(): boolean {
    return this.#inFlight.length === 0 && this.#waiting.length === 0;
  }

  /** True if it accepts requests. */
  get open(): boolean {
    return this.#state === "open";
  }

  /** Declares that the tensors of the steps answered so far are no longer used. */
  recycle(): void {
    this.#stream.recycle?.();
  }

  /**
   * Accepts an exchange. Sends as many requests as the window has room for, and the rest as responses
   * arrive.
   */
  submit(exchange: Exchange): void {
    if (this.#state !== "open") {
      exchange.onError(this.#failure ?? closing(this.peer));
      return;
    }
    if (this.#waiting.length >= this.#limits.maxWaiting) {
      exchange.onError(tooManyWaiting(this.#limits.maxWaiting));
      return;
    }
    this.#waiting.push(exchange);
    this.#pump();
    if (this.#waiting.length > 0) {
      exchange.onWait();
    }
  }

  /**
   * Sends one request and waits for its response. `onAnswer` receives it before any later response
   * is read, even if the caller no longer waits.
   */
  call<R extends ProcessRequest>(
    request: R,
    options?: WaitOptions,
    onAnswer?: (response: ResponseTo<R>) => void,
  ): Promise<ResponseTo<R>> {
    // `onMessage` passes only responses of the request's case.
    const call = new SendCall(
      request,
      onAnswer as ((response: ProcessResponse) => void) | undefined,
    );
    call.watch(`the ${request.case ?? "empty"} request to ${this.peer}`, options);
    this.submit(call);
    return call.promise as Promise<ResponseTo<R>>;
  }

  /** Rejects the outstanding steps and drops their responses. */
  cancelSteps(error: Error): void {
    for (const queue of [this.#inFlight, this.#waiting]) {
      for (const exchange of queue) {
        if (exchange.kind === "step") {
          exchange.cancel(error);
        }
      }
    }
  }

  /** Refuses further requests, and ends this side once the waiting requests are sent. */
  drain(): void {
    if (this.#state !== "open") {
      return;
    }
    this.#state = "draining";
    this.#pump();
  }

  /** Ends this side: neither accepts nor sends further requests. Requests in flight may still be answered. */
  end(): void {
    if (this.#state !== "open" && this.#state !== "draining") {
      return;
    }
    this.#state = "ended";
    this.#stream.end();
    this.#failWaiting(unsent(this.peer));
  }

  /** Ends the stream at once; open exchanges fail with the error. */
  abort(error: Error): void {
    if (this.#state === "failed") {
      return;
    }
    this.#fail(error);
    this.#stream.abort(error);
  }

  onMessage(message: ProcessResponse | Malformed): void {
    if (this.#state === "failed") {
      return;
    }
    if (message.case !== "malformed") {
      for (let i = 0; i < this.#observers.length; i++) {
        this.#observers[i]?.onResponse(message);
      }
    }
    const exchange = this.#inFlight.shift();
    if (exchange === undefined) {
      this.abort(unrequested(this.peer, message.case));
      return;
    }
    if (message.case === "error") {
      exchange.onError(unpackStatus(message.value));
    } else if (message.case === exchange.kind && message.case !== undefined) {
      exchange.onResponse(message);
    } else {
      const error =
        message.case === "malformed"
          ? malformed(this.peer, exchange.kind, message)
          : wrongKind(this.peer, exchange.kind, message.case);
      exchange.onError(error);
      this.abort(error);
      return;
    }
    if (this.#waiting.length > 0) {
      this.#pump();
    }
  }

  onEnd(): void {
    if (this.#state === "failed") {
      return;
    }
    this.#stream.end();
    if (this.#unanswered > 0 || this.#state === "open") {
      this.#lose(undefined);
    }
  }

  onDrain(): void {
    this.#writable = true;
    this.#pump();
  }

  onClose(error: Error | undefined): void {
    const expected = error === undefined && this.#unanswered === 0 && this.#state !== "open";
    if (this.#state !== "failed" && !expected) {
      this.#lose(error);
    }
    this.#onClosed(this.#failure ?? error);
  }

  get #unanswered(): number {
    return this.#inFlight.length + this.#waiting.length;
  }

  #lose(cause: Error | undefined): void {
    const error = lost(this.peer, this.#unanswered, cause);
    if (this.#onLost === undefined || this.#state !== "open") {
      this.#fail(error);
      return;
    }
    this.#state = "failed";
    this.#failure = error;
    this.#onLost(cause, this.#takeOpen());
  }

  #pump(): void {
    while (this.#writable && this.#inFlight.length < this.#limits.maxInFlight) {
      const exchange = this.#waiting.peek();
      if (exchange === undefined) {
        break;
      }
      const request = exchange.more ? exchange.next() : undefined;
      if (!exchange.more) {
        this.#waiting.shift();
      }
      if (request === undefined) {
        continue;
      }
      this.#inFlight.push(exchange);
      try {
        this.#writable = this.#stream.send(request);
        for (let i = 0; i < this.#observers.length; i++) {
          this.#observers[i]?.onRequest(request);
        }
      } catch (error) {
        this.#inFlight.pop();
        exchange.onError(notEncoded(error));
      }
    }
    if (this.#state === "draining" && this.#waiting.length === 0) {
      this.#state = "ended";
      this.#stream.end();
    }
  }

  #fail(error: Error): void {
    this.#state = "failed";
    this.#failure = error;
    for (const open of this.#takeOpen()) {
      open.onError(error);
    }
  }

  /** Removes and returns all open exchanges, in order. */
  #takeOpen(): Exchange[] {
    const open: Exchange[] = [];
    for (const queue of [this.#inFlight, this.#waiting]) {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        open.push(next);
      }
    }
    return open;
  }

  #failWaiting(error: Error): void {
    for (let open = this.#waiting.shift(); open !== undefined; open = this.#waiting.shift()) {
      open.onError(error);
    }
  }
}
