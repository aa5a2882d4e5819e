// SPDX-License-Identifier: Apache-2.0

import type { JoinWorldRequest } from "@dm-env-rpc/protocol";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { ClientStream } from "@dm-env-rpc/transport";
import { toError } from "@dm-env-rpc/transport/internal";
import type { Exchange, ResponseTo } from "./call.ts";
import type { MessageObserver } from "./connection.ts";
import type { EnvironmentState } from "./environment-state.ts";
import { isRefusal, lost } from "./faults.ts";
import { type SpecTables, tablesOf } from "./join-specs.ts";
import { Pipeline, type PipelineLimits } from "./pipeline.ts";
import { attempts, type ReconnectOptions, type WorldFate } from "./reconnect.ts";
import { timeLeft, type WaitOptions, waitFor } from "./wait.ts";

/** A stream, and what gives back what it stands on, once it is gone: a socket. */
export interface Line {
  readonly stream: ClientStream;
  readonly release?: (() => Promise<void>) | undefined;
}

/** How a connection lives. */
export interface LifelineOptions {
  readonly peer: string;
  readonly limits: PipelineLimits;
  /** Off without it. */
  readonly reconnect?: ReconnectOptions | undefined;
  /** Opens another stream to the same server. */
  readonly reopen?: ((signal: AbortSignal) => Promise<Line>) | undefined;
}

/** An agent, and the request that it joined with. */
export interface Passenger {
  readonly request: JoinWorldRequest;
  readonly environment: EnvironmentState;
}

/** What a new stream brought. */
interface Reopened {
  readonly line: Line;
  readonly pipeline: Pipeline;
  readonly world: WorldFate;
  readonly tables: SpecTables | undefined;
  readonly refusal: Error | undefined;
}

/** One stream after another to the same server: a lost one is made again where that was asked for. */
export class Lifeline {
  readonly peer: string;
  /** Settles when there is no stream any more and there will be none. */
  readonly closed: Promise<Error | undefined>;
  /** The agent that has joined. */
  passenger: Passenger | undefined;
  readonly #options: LifelineOptions;
  readonly #observers: MessageObserver[] = [];
  readonly #ended = new AbortController();
  #line: Line;
  #pipeline: Pipeline;
  #reconnecting: Promise<void> | undefined;
  #onClosed!: (error: Error | undefined) => void;

  constructor(line: Line, options: LifelineOptions) {
    this.peer = options.peer;
    this.#options = options;
    this.closed = new Promise((resolve) => {
      this.#onClosed = resolve;
    });
    this.#line = line;
    this.#pipeline = this.#start(line);
  }

  get pipeline(): Pipeline {
    return this.#pipeline;
  }

  /** Calls through the stream that there is, or will be. */
  async call<R extends ProcessRequest>(
    request: R,
    options?: WaitOptions,
    onAnswer?: (response: ResponseTo<R>) => void,
  ): Promise<ResponseTo<R>> {
    if (this.#reconnecting === undefined)
      return await this.#pipeline.call(request, options, onAnswer);
    const left = timeLeft(options);
    await waitFor(this.#reconnecting, `reconnecting to ${this.peer}`, left());
    return await this.#pipeline.call(request, left(), onAnswer);
  }

  observe(observer: MessageObserver): () => void {
    this.#observers.push(observer);
    return () => {
      const index = this.#observers.indexOf(observer);
      if (index !== -1) this.#observers.splice(index, 1);
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
    await this.#line.release?.();
  }

  #start(line: Line): Pipeline {
    const { peer, limits, reconnect, reopen } = this.#options;
    const again = reconnect !== undefined && reopen !== undefined;
    const pipeline: Pipeline = new Pipeline(line.stream, {
      peer,
      limits,
      observers: this.#observers,
      onLost: again
        ? (cause, open) => {
            const lostNow = pipeline === this.#pipeline && !this.#ended.signal.aborted;
            if (lostNow) this.#lose(cause, open, reconnect, reopen);
            else for (const exchange of open) exchange.onError(lost(peer, open.length, cause));
          }
        : undefined,
    });
    void pipeline.closed.then((error) => {
      if (pipeline === this.#pipeline && this.#reconnecting === undefined) this.#onClosed(error);
    });
    return pipeline;
  }

  #lose(
    cause: Error | undefined,
    open: readonly Exchange[],
    reconnect: ReconnectOptions,
    reopen: (signal: AbortSignal) => Promise<Line>,
  ): void {
    const again = this.#reconnect(cause, open, reconnect, reopen);
    this.#reconnecting = again;
    this.passenger?.environment.suspend(again);
  }

  async #reconnect(
    cause: Error | undefined,
    open: readonly Exchange[],
    reconnect: ReconnectOptions,
    reopen: (signal: AbortSignal) => Promise<Line>,
  ): Promise<void> {
    const { peer } = this.#options;
    const unknown = lost(peer, open.length, cause);
    const made = await attempts(() => this.#reopen(reopen), reconnect, unknown, this.#ended.signal);
    const error = lost(peer, open.length, cause, made?.value.world ?? "unknown");
    if (made === undefined) {
      this.passenger?.environment.gone(error);
      this.#reconnecting = undefined;
      this.#onClosed(error);
      reconnect.onStatus?.({ kind: "closed", error });
    } else {
      const { line, pipeline, world, tables, refusal } = made.value;
      this.#line = line;
      this.#pipeline = pipeline;
      this.#reconnecting = undefined;
      const told = open.some(({ kind }) => kind === "step" || kind === "reset");
      const environment = this.passenger?.environment;
      if (tables !== undefined) environment?.rejoined(pipeline, tables, told ? undefined : error);
      else if (refusal !== undefined) {
        environment?.gone(error);
        this.passenger = undefined;
      }
      reconnect.onStatus?.({ kind: "reconnected", attempt: made.attempt, world });
    }
    for (const exchange of open) exchange.onError(error);
  }

  /** Opens a stream and joins the same world again. A world that is gone is no failure of the stream. */
  async #reopen(reopen: (signal: AbortSignal) => Promise<Line>): Promise<Reopened> {
    const line = await reopen(this.#ended.signal);
    const pipeline = this.#start(line);
    const { passenger } = this;
    if (passenger === undefined)
      return { line, pipeline, world: "unknown", tables: undefined, refusal: undefined };
    try {
      const { value } = await pipeline.call(
        { case: "joinWorld", value: passenger.request },
        { signal: this.#ended.signal },
      );
      const tables = tablesOf(value.specs);
      return { line, pipeline, world: "kept", tables, refusal: undefined };
    } catch (error) {
      if (isRefusal(error) && error.code === "NOT_FOUND")
        return { line, pipeline, world: "lost", tables: undefined, refusal: error };
      // It may take the server a while to notice that the agent had left: that is one more attempt.
      line.stream.abort(toError(error));
      throw error;
    }
  }
}
