// SPDX-License-Identifier: Apache-2.0
import {
  ownScalars,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";
import { toError } from "@dm-env-rpc/transport/internal";
import { copied } from "./copied.ts";
import { type WaitOptions, watch } from "./wait.ts";

/** What a request may be, and a response that answers it. */
export type RequestCase = ProcessRequest["case"];

/** The response that answers a request in kind. */
export type ResponseTo<R extends ProcessRequest> = R extends { readonly case: undefined }
  ? never
  : Extract<ProcessResponse, { readonly case: R["case"] }>;

/** One or more requests of one kind, and what becomes of their answers. */
export interface Exchange {
  /** The kind of its requests, and so of the responses that may answer them. */
  readonly kind: RequestCase;
  /** Whether there is a request left to send. */
  readonly more: boolean;
  /** The next request to send, asked for when there is room; undefined when there is none after all. */
  next(): ProcessRequest | undefined;
  /** There is no room now: whatever was lent for the request has to be kept. */
  onWait(): void;
  /** A response of the right kind. */
  onResponse(response: ProcessResponse): void;
  /** The server answered with an error, or no answer will ever come. */
  onError(error: Error): void;
  /** The caller stops waiting: nothing more is sent, and what was sent keeps its place in the pairing. */
  giveUp(error: Error): void;
}

/**
 * An exchange that somebody awaits. When a wait is given up the promise settles,
 * but the call keeps its place in the pairing: its answer is still read, in
 * order, and then dropped.
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

  /** Gives the call up when its options say so. */
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
    // Whoever gives up calls need not await each of them.
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

/** A call of one request. */
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

/** A request sent as it is. */
export class SendCall extends RequestCall<ProcessResponse> {
  readonly #onAnswer: ((response: ProcessResponse) => void) | undefined;

  /** `onAnswer` is called before any later answer is read, even when nobody waits any more; what it throws rejects. */
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

/** A request that shares no tensor's memory with its maker, who may use it again. */
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

/** A response whose scalars are nobody else's: a codec may lend them until the next message. */
function withOwnScalars(response: ProcessResponse): ProcessResponse {
  if (response.case !== "step") {
    return response;
  }
  const { state, observations } = response.value;
  return { case: "step", value: { state, observations: ownScalars(observations) } };
}
