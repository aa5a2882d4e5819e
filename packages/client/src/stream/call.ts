// SPDX-License-Identifier: Apache-2.0
import {
  ownScalars,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";
import { toError } from "@dm-env-rpc/transport/internal";
import { copied } from "./copied.ts";
import { type WaitOptions, watch } from "./wait.ts";

/** Kinds of requests; a response in kind has the same one. */
export type RequestCase = ProcessRequest["case"];

/** The response that answers a request in kind. */
export type ResponseTo<R extends ProcessRequest> = R extends { readonly case: undefined }
  ? never
  : Extract<ProcessResponse, { readonly case: R["case"] }>;

/** One or more requests of one kind, and the receiver of their responses. */
export interface Exchange {
  /** Kind of its requests, and of the responses to them. */
  readonly kind: RequestCase;
  /** True if a request is left to send. */
  readonly more: boolean;
  /**
   * Returns the next request to send; called when the window has room; undefined if none is left
   * after all.
   */
  next(): ProcessRequest | undefined;
  /** Copies borrowed scalars so that the request can be queued, because the window is full. */
  onWait(): void;
  /** Receives a response of the right kind. */
  onResponse(response: ProcessResponse): void;
  /** Receives an error: the server's, or that no response will arrive. */
  onError(error: Error): void;
  /**
   * Ends the caller's wait: nothing more is sent, and sent requests keep their place in the
   * pairing.
   */
  giveUp(error: Error): void;
}

/**
 * An exchange with a promise for its caller. If the wait ends early the promise settles, but the
 * call keeps its place in the pairing: its response is still read, in order, and then dropped.
 */
export abstract class Call<T> implements Exchange {
  abstract readonly kind: RequestCase;
  readonly promise: Promise<T>;
  protected settled = false;
  #resolve!: (value: T) => void;
  #reject!: (error: Error) => void;
  #stopWatching: (() => void) | undefined;

  constructor() {
    this.promise = new Promise<T>((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Ends the wait when its options require it. */
  watch(what: string, options: WaitOptions | undefined): void {
    this.#stopWatching = watch(what, options, (error) => this.fail(error));
  }

  abstract readonly more: boolean;
  abstract next(): ProcessRequest | undefined;
  abstract onWait(): void;
  abstract onResponse(response: ProcessResponse): void;

  onError(error: Error): void {
    this.fail(error);
  }

  giveUp(error: Error): void {
    // A caller that ends many calls early need not await each of them.
    this.promise.catch(() => {});
    this.fail(error);
  }

  protected succeed(value: T): void {
    if (this.settled) {
      return;
    }
    this.settled = true;
    this.#stopWatching?.();
    this.#resolve(value);
  }

  protected fail(error: Error): void {
    if (this.settled) {
      return;
    }
    this.settled = true;
    this.#stopWatching?.();
    this.#reject(error);
  }
}

/** A call with one request. */
export abstract class RequestCall<T> extends Call<T> {
  readonly kind: RequestCase;
  #request: ProcessRequest | undefined;

  constructor(request: ProcessRequest) {
    super();
    this.kind = request.case;
    this.#request = request;
  }

  override get more(): boolean {
    return this.#request !== undefined && !this.settled;
  }

  override next(): ProcessRequest | undefined {
    const request = this.#request;
    this.#request = undefined;
    return request;
  }

  override onWait(): void {
    if (this.#request !== undefined) {
      this.#request = kept(this.#request);
    }
  }
}

/** A request that is sent unchanged. */
export class SendCall extends RequestCall<ProcessResponse> {
  readonly #onAnswer: ((response: ProcessResponse) => void) | undefined;

  /**
   * @param onAnswer Called before any later response is read, even if the caller no longer waits;
   *   an error that it throws rejects.
   */
  constructor(request: ProcessRequest, onAnswer?: (response: ProcessResponse) => void) {
    super(request);
    this.#onAnswer = onAnswer;
  }

  override onResponse(lent: ProcessResponse): void {
    const response = withOwnScalars(lent);
    try {
      this.#onAnswer?.(response);
    } catch (error) {
      this.fail(toError(error));
    }
    this.succeed(response);
  }
}

/** Returns a request with copied tensors, whose caller may reuse its memory. */
function kept(request: ProcessRequest): ProcessRequest {
  if (request.case !== "step") {
    return request;
  }
  const { actions, requestedObservations } = request.value;
  const copies = actions.map(({ uid, tensor }) => ({
    uid,
    tensor: tensor.dtype === "unset" ? tensor : copied(tensor),
  }));
  return { case: "step", value: { actions: copies, requestedObservations } };
}

/**
 * Returns a response with its own scalars: a codec's scalars are borrowed until the next message.
 */
function withOwnScalars(response: ProcessResponse): ProcessResponse {
  if (response.case !== "step") {
    return response;
  }
  const { state, observations } = response.value;
  return { case: "step", value: { state, observations: ownScalars(observations) } };
}
