// SPDX-License-Identifier: Apache-2.0
import type { Settings, Specs } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { ResponseTo } from "./call.ts";
import type { ActionOf, EnvironmentDefinition, NameOf, ObservationOf } from "./definition.ts";
import type { Environment, JoinOptions } from "./environment.ts";
import type { WaitOptions } from "./wait.ts";

/** How to create a world, or to reset one. */
export interface WorldOptions extends WaitOptions {
  /** A definition whose `settings` say how to pack the settings; else dtypes follow from the values. */
  readonly as?: Pick<EnvironmentDefinition, "settings"> | undefined;
  /** Settings of the world. */
  readonly settings?: Settings | undefined;
}

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

/**
 * One Process stream to a server, and at most one agent in one world.
 *
 * Requests may overlap: they are sent in the order of the calls, up to
 * `maxInFlight` of them before the first is answered, and are answered in that order. What the server answers with an error
 * rejects with a DmEnvRpcError; the stream lives on. When the stream is lost, or the server
 * breaks the protocol, everything outstanding rejects with one DmEnvRpcError.
 */
export interface Connection extends AsyncDisposable {
  /** What the server is called: its address, or a name for a stream without a network. */
  readonly peer: string;

  /**
   * Sends any request of the protocol, raw, and returns the response of its kind.
   *
   * An environment notices resets and leaves that are sent this way, but not steps.
   *
   * @throws DmEnvRpcError of origin `server` when the server answers with an error, `client` when the wait is given
   * up (DEADLINE_EXCEEDED, CANCELLED), `connection` when the stream is lost.
   */
  send<const R extends ProcessRequest>(request: R, options?: WaitOptions): Promise<ResponseTo<R>>;

  /** Creates a world and returns its name (reference.md, "CreateWorldRequest"). */
  createWorld(options?: WorldOptions): Promise<string>;

  /** Destroys a world, which this connection must not be joined to. */
  destroyWorld(world: string, options?: WaitOptions): Promise<void>;

  /**
   * Begins a new sequence for every agent of a world, and waits until each has been told
   * (behaviour 41). One need not be joined to it.
   */
  resetWorld(world: string, options?: WorldOptions): Promise<void>;

  /**
   * Joins a world as an agent. A connection is in one world at a time.
   *
   * @throws DmEnvRpcError NOT_FOUND for a world that is gone, and what else the server answers.
   * @throws TensorError `spec` when the server's specs are not those of `as`; the agent has left again then.
   */
  join<A extends Specs = Specs, O extends Specs = Specs, const N extends NameOf<O> = never>(
    world: string,
    options?: JoinOptions<A, O, N>,
  ): Promise<Environment<ActionOf<A>, ObservationOf<O, N>>>;

  /** Shows an observer all requests and responses from now on, until the function that it returns is called. */
  observe(observer: MessageObserver): () => void;

  /**
   * Leaves the world, if one is joined (behaviour 29). Steps that have no answer yet, such as one that waits for
   * other agents, reject at once with CANCELLED of origin `client`.
   */
  leave(options?: WaitOptions): Promise<void>;

  /**
   * Takes no more requests, waits for the answers to all made so far, then closes.
   * Given up by its options it rejects, and goes on draining.
   */
  drain(options?: WaitOptions): Promise<void>;

  /**
   * Ends the requests, waits up to `timeoutMs` for the answers to those in
   * flight, then ends the stream whatever is open. The agent leaves its world. Requests that wait for room are
   * rejected. Idempotent, and never rejects. Default `timeoutMs`: 2,000.
   */
  close(options?: { readonly timeoutMs?: number }): Promise<void>;

  /** Settles when the stream is gone, however that came about; with the error where it was lost. */
  readonly closed: Promise<Error | undefined>;
}
