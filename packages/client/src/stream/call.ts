// SPDX-License-Identifier: Apache-2.0
import {
  ownScalars,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";
import { toError } from "@dm-env-rpc/transport/internal";
import { copied } from "./copied.ts";
import { type WaitOptions, watch } from "./wait.ts";

/** Kinds of requests. The response to a request has the same kind, unless it is an error. */
export type RequestCase = ProcessRequest["case"];

/** The response to a request, if it is not an error. */
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
   * Returns the next request to send, or undefined if none is left after all. Called when the window
   * has room.
   */
  next(): ProcessRequest | undefined;
  /** Copies borrowed memory, because the window is full and the request has to be queued. */
  onWait(): void;
  /** Receives a response of the same kind. */
  onResponse(response: ProcessResponse): void;
  /** Receives the error with which the server answered, or the reason why no response will arrive. */
  onError(error: Error): void;
  /**
   * Ends the caller's wait. Nothing more is sent; sent requests stay queued so that their responses
   * are matched.
   */
  cancel(error: Error): void;
}

/**
 * An exchange with a promise for its caller. If the wait ends early, the promise rejects, but the call
 * stays queued: its response is still matched, in order, and then dropped.
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

  /** Ends the wait when the options require it. */
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

  cancel(error: Error): void {
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
      this.#request = withOwnTensors(this.#request);
    }
  }
}

/** A request that is sent unchanged. */
export class SendCall extends RequestCall<ProcessResponse> {
  readonly #onAnswer: ((response: ProcessResponse) => void) | undefined;

  /**
   * @param onAnswer Called before any later response is read, even if the caller no longer waits;
   *   an error that it throws rejects the call.
   */
  constructor(request: ProcessRequest, onAnswer?: (response: ProcessResponse) => void) {
    super(request);
    this.#onAnswer = onAnswer;
  }

  override onResponse(borrowed: ProcessResponse): void {
    const response = withOwnScalars(borrowed);
    try {
      this.#onAnswer?.(response);
    } catch (error) {
      this.fail(toError(error));
    }
    this.succeed(response);
  }
}

/** Returns the request with copied tensors, so that the caller may reuse its memory. */
function withOwnTensors(request: ProcessRequest): ProcessRequest {
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
 * Returns the response with copied scalars, because those of the codec are borrowed until the next
 * message.
 */
function withOwnScalars(response: ProcessResponse): ProcessResponse {
  if (response.case !== "step") {
    return response;
  }
  const { state, observations } = response.value;
  return { case: "step", value: { state, observations: ownScalars(observations) } };
}
