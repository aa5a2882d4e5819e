// SPDX-License-Identifier: Apache-2.0

import type { JoinWorldRequest } from "@dm-env-rpc/protocol";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { ClientStream } from "@dm-env-rpc/transport";
import { toError } from "@dm-env-rpc/transport/internal";
import type { EnvironmentState } from "../environment/environment-state.ts";
import { type SpecTables, tablesOf } from "../environment/join-specs.ts";
import type { Exchange, ResponseTo } from "../stream/call.ts";
import { isRefusal, lost, type WorldFate } from "../stream/faults.ts";
import { type MessageObserver, Pipeline, type PipelineLimits } from "../stream/pipeline.ts";
import { timeLeft, type WaitOptions, waitFor } from "../stream/wait.ts";
import { attempts, type ReconnectOptions } from "./reconnect.ts";

/** A stream, with a function that releases its resources, such as a socket, after it has closed. */
export interface OpenStream {
  readonly stream: ClientStream;
  readonly release?: (() => Promise<void>) | undefined;
}

/** Options of a reconnecting stream. */
export interface ReconnectingStreamOptions {
  readonly peer: string;
  readonly limits: PipelineLimits;
  /** Undefined turns reconnecting off. */
  readonly reconnect?: ReconnectOptions | undefined;
  /** Opens another stream to the same server. */
  readonly reopen?: ((signal: AbortSignal) => Promise<OpenStream>) | undefined;
}

/** An agent in its world, with the request that it joined with. */
export interface JoinedAgent {
  readonly request: JoinWorldRequest;
  readonly environment: EnvironmentState;
}

/** Result of reopening a stream. */
interface Reopened {
  readonly opened: OpenStream;
  readonly pipeline: Pipeline;
  readonly world: WorldFate;
  readonly tables: SpecTables | undefined;
  readonly refusal: Error | undefined;
}

/**
 * A stream to a server. If reconnecting is on, a lost stream is reopened, and its agent joins again.
 */
export class ReconnectingStream {
  readonly peer: string;
  /** Resolves when the stream has closed and is not reopened. */
  readonly closed: Promise<Error | undefined>;
  /** The agent that has joined. */
  joinedAgent: JoinedAgent | undefined;
  readonly #options: ReconnectingStreamOptions;
  readonly #observers: MessageObserver[] = [];
  readonly #ended = new AbortController();
  #opened: OpenStream;
  #pipeline: Pipeline;
  #reconnecting: Promise<void> | undefined;
  #onClosed!: (error: Error | undefined) => void;

  constructor(opened: OpenStream, options: ReconnectingStreamOptions) {
    this.peer = options.peer;
    this.#options = options;
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
    this.#opened = opened;
    this.#pipeline = this.#start(opened);
  }

  /** True if the server should hold the agent's seat while the stream is lost. */
  get keepsSeat(): boolean {
    const { reconnect, reopen } = this.#options;
    return reconnect?.keepSeat === true && reopen !== undefined;
  }

  get pipeline(): Pipeline {
    return this.#pipeline;
  }

  /** Sends a request through the current stream, or, if that is being reopened, through the next stream. */
  async call<R extends ProcessRequest>(
    request: R,
    options?: WaitOptions,
    onAnswer?: (response: ResponseTo<R>) => void,
  ): Promise<ResponseTo<R>> {
    if (this.#reconnecting === undefined) {
      return await this.#pipeline.call(request, options, onAnswer);
    }
    const left = timeLeft(options);
    await waitFor(this.#reconnecting, `reconnecting to ${this.peer}`, left());
    return await this.#pipeline.call(request, left(), onAnswer);
  }

  observe(observer: MessageObserver): () => void {
    this.#observers.push(observer);
    return () => {
      const index = this.#observers.indexOf(observer);
      if (index !== -1) {
        this.#observers.splice(index, 1);
      }
    };
  }

  drain(): void {
    this.#ended.abort();
    this.#pipeline.drain();
  }

  end(): void {
    this.#ended.abort();
    this.#pipeline.end();
  }

  async release(): Promise<void> {
    await this.#opened.release?.();
  }

  #start(opened: OpenStream): Pipeline {
    const { peer, limits, reconnect, reopen } = this.#options;
    const again = reconnect !== undefined && reopen !== undefined;
    const pipeline: Pipeline = new Pipeline(opened.stream, {
      peer,
      limits,
      observers: this.#observers,
      onLost: again
        ? (cause, open) => {
            const lostNow = pipeline === this.#pipeline && !this.#ended.signal.aborted;
            if (lostNow) {
              this.#lose(cause, open, reconnect, reopen);
            } else {
              const error = lost(peer, open.length, cause);
              for (const exchange of open) {
                exchange.onError(error);
              }
            }
          }
        : undefined,
    });
    void pipeline.closed.then((error) => {
      if (pipeline === this.#pipeline && this.#reconnecting === undefined) {
        this.#onClosed(error);
      }
    });
    return pipeline;
  }

  #lose(
    cause: Error | undefined,
    open: readonly Exchange[],
    reconnect: ReconnectOptions,
    reopen: (signal: AbortSignal) => Promise<OpenStream>,
  ): void {
    const again = this.#reconnect(cause, open, reconnect, reopen);
    this.#reconnecting = again;
    this.joinedAgent?.environment.suspend(again);
  }

  async #reconnect(
    cause: Error | undefined,
    open: readonly Exchange[],
    reconnect: ReconnectOptions,
    reopen: (signal: AbortSignal) => Promise<OpenStream>,
  ): Promise<void> {
    const { peer } = this.#options;
    const unknown = lost(peer, open.length, cause);
    const made = await attempts(() => this.#reopen(reopen), reconnect, unknown, this.#ended.signal);
    const error = lost(peer, open.length, cause, made?.value.world ?? "unknown");
    if (made === undefined) {
      this.joinedAgent?.environment.gone(error);
      this.#reconnecting = undefined;
      this.#onClosed(error);
      reconnect.onStatus?.({ kind: "closed", error });
    } else {
      const { opened, pipeline, world, tables, refusal } = made.value;
      this.#opened = opened;
      this.#pipeline = pipeline;
      this.#reconnecting = undefined;
      const isReported = open.some(({ kind }) => kind === "step" || kind === "reset");
      const environment = this.joinedAgent?.environment;
      if (tables !== undefined) {
        environment?.rejoined(pipeline, tables, isReported ? undefined : error);
      } else if (refusal !== undefined) {
        environment?.gone(error);
        this.joinedAgent = undefined;
      }
      reconnect.onStatus?.({ kind: "reconnected", attempt: made.attempt, world });
    }
    for (const exchange of open) {
      exchange.onError(error);
    }
  }

  /**
   * Opens a stream and joins the same world again. If the server no longer has the world, the stream
   * is kept, without an agent.
   */
  async #reopen(reopen: (signal: AbortSignal) => Promise<OpenStream>): Promise<Reopened> {
    const opened = await reopen(this.#ended.signal);
    const pipeline = this.#start(opened);
    const { joinedAgent } = this;
    if (joinedAgent === undefined) {
      return { opened, pipeline, world: "unknown", tables: undefined, refusal: undefined };
    }
    try {
      const { value } = await pipeline.call(
        { case: "joinWorld", value: joinedAgent.request },
        { signal: this.#ended.signal },
      );
      const tables = tablesOf(value.specs);
      return { opened, pipeline, world: "kept", tables, refusal: undefined };
    } catch (error) {
      if (isRefusal(error) && error.code === "NOT_FOUND") {
        return { opened, pipeline, world: "lost", tables: undefined, refusal: error };
      }
      // The server may not have noticed the lost agent yet: another attempt may succeed.
      opened.stream.abort(toError(error));
      throw error;
    }
  }
}
