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
  unasked,
  unsent,
  wrongKind,
} from "./faults.ts";
import { Fifo } from "./fifo.ts";
import type { WaitOptions } from "./wait.ts";

/**
 * Sees what goes over a connection, in order. What it is given is lent until the call returns: its
 * tensors must not be changed, and may change later.
 */
export interface MessageObserver {
  /** A request is being sent. Must not throw. */
  onRequest(request: ProcessRequest): void;
  /** A response has come, an error Status included, before anybody else sees it. Must not throw. */
  onResponse(response: ProcessResponse): void;
}

/** Bounds of a pipeline. */
export interface PipelineLimits {
  readonly maxInFlight: number;
  readonly maxWaiting: number;
}

/** What a pipeline is made from. */
export interface PipelineParts {
  readonly peer: string;
  readonly limits: PipelineLimits;
  /** See every message; the list may change. */
  readonly observers: readonly MessageObserver[];
  /** Takes care of what is open when the stream is lost; without it, that fails. */
  readonly onLost?: ((cause: Error | undefined, open: readonly Exchange[]) => void) | undefined;
}

/**
 * The requests of one stream: sent in the order of their making, as many in
 * flight as the window allows, and each answer given to the oldest open request.
 */
export class Pipeline implements StreamReceiver<ProcessResponse> {
  /** Settles when the stream is gone; with the error where it was lost or aborted. */
  readonly closed: Promise<Error | undefined>;
  readonly #stream: ClientStream;
  /** What the server is called in errors. */
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

  /** Whether no request is sent or waiting: then all that the server said is known. */
  get idle(): boolean {
    return this.#inFlight.length === 0 && this.#waiting.length === 0;
  }

  /** Whether it takes requests. */
  get open(): boolean {
    return this.#state === "open";
  }

  /** Says that nobody looks at the tensors of steps answered so far. */
  recycle(): void {
    this.#stream.recycle?.();
  }

  /** Takes an exchange: sends what there is room for now, the rest as answers come. */
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
   * Sends one request and waits for the response that answers it. `onAnswer` sees it
   * before any later answer is read, even when nobody waits any more.
   */
  call<R extends ProcessRequest>(
    request: R,
    options?: WaitOptions,
    onAnswer?: (response: ResponseTo<R>) => void,
  ): Promise<ResponseTo<R>> {
    // A response of another case never gets here: onMessage compares it with the request's.
    const call = new SendCall(
      request,
      onAnswer as ((response: ProcessResponse) => void) | undefined,
    );
    call.watch(`the ${request.case ?? "empty"} request to ${this.peer}`, options);
    this.submit(call);
    return call.promise as Promise<ResponseTo<R>>;
  }

  /** Rejects the steps that have no answer yet; late answers are dropped. */
  giveUpSteps(error: Error): void {
    for (const queue of [this.#inFlight, this.#waiting]) {
      for (const exchange of queue) {
        if (exchange.kind === "step") {
          exchange.giveUp(error);
        }
      }
    }
  }

  /** Takes no more requests; ends this side once those that wait are sent. */
  drain(): void {
    if (this.#state !== "open") {
      return;
    }
    this.#state = "draining";
    this.#pump();
  }

  /** Takes and sends no more requests; those in flight may still be answered. */
  end(): void {
    if (this.#state !== "open" && this.#state !== "draining") {
      return;
    }
    this.#state = "ended";
    this.#stream.end();
    this.#failWaiting(unsent(this.peer));
  }

  /** Ends the stream now: what is open fails with the error. */
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
      this.abort(unasked(this.peer, message.case));
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

  /** Everything sent and waiting, in order; nothing is open after it. */
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
