// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldRequestSchema,
  DestroyWorldRequestSchema,
  JoinWorldRequestSchema,
  LeaveWorldRequestSchema,
  ResetWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import { DmEnvRpcError, type Specs } from "@dm-env-rpc/tensor-codec";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { maxTimeoutMs } from "@dm-env-rpc/transport";
import type { ResponseTo } from "./call.ts";
import type { Connection, MessageObserver, WorldOptions } from "./connection.ts";
import type { ActionOf, NameOf, ObservationOf } from "./definition.ts";
import type { Environment, JoinOptions } from "./environment.ts";
import { EnvironmentState } from "./environment-state.ts";
import { tablesOf } from "./join-specs.ts";
import { Lifeline, type LifelineOptions, type Line } from "./lifeline.ts";
import { type WaitOptions, waitFor } from "./wait.ts";

const defaultCloseTimeoutMs = 2_000;

/** The requests of one connection, and the agent that joined through it. */
export class ConnectionState implements Connection {
  readonly #lifeline: Lifeline;
  #environment: EnvironmentState | undefined;
  #closing: Promise<void> | undefined;

  constructor(line: Line, options: LifelineOptions) {
    this.#lifeline = new Lifeline(line, options);
  }

  get peer(): string {
    return this.#lifeline.peer;
  }

  get closed(): Promise<Error | undefined> {
    return this.#lifeline.closed;
  }

  async send<const R extends ProcessRequest>(
    request: R,
    options?: WaitOptions,
  ): Promise<ResponseTo<R>> {
    return await this.#lifeline.call(request, options, () => this.#noticed(request));
  }

  async createWorld(options: WorldOptions = {}): Promise<string> {
    const settings = packSettings(options.settings ?? {}, options.as?.settings);
    const value = create(CreateWorldRequestSchema, { settings });
    const response = await this.send({ case: "createWorld", value }, options);
    return response.value.worldName;
  }

  async destroyWorld(world: string, options?: WaitOptions): Promise<void> {
    const value = create(DestroyWorldRequestSchema, { worldName: world });
    await this.send({ case: "destroyWorld", value }, options);
  }

  async resetWorld(world: string, options: WorldOptions = {}): Promise<void> {
    const settings = packSettings(options.settings ?? {}, options.as?.settings);
    const value = create(ResetWorldRequestSchema, { worldName: world, settings });
    await this.send({ case: "resetWorld", value }, options);
  }

  async join<A extends Specs = Specs, O extends Specs = Specs, const N extends NameOf<O> = never>(
    world: string,
    options: JoinOptions<A, O, N> = {},
  ): Promise<Environment<ActionOf<A>, ObservationOf<O, N>>> {
    const settings = packSettings(options.settings ?? {}, options.as?.joinSettings);
    const value = create(JoinWorldRequestSchema, { worldName: world, settings });
    const response = await this.#lifeline.call({ case: "joinWorld", value }, options);
    try {
      const tables = tablesOf(response.value.specs);
      const environment = new EnvironmentState(
        this.#lifeline.pipeline,
        world,
        tables,
        options,
        this,
      );
      this.#environment = environment;
      this.#lifeline.passenger = { request: value, environment };
      // The definition and the names asked for are the types; the view checks them against the specs.
      return environment as unknown as Environment<ActionOf<A>, ObservationOf<O, N>>;
    } catch (error) {
      await this.leave(options);
      throw error;
    }
  }

  observe(observer: MessageObserver): () => void {
    return this.#lifeline.observe(observer);
  }

  async leave(options?: WaitOptions): Promise<void> {
    this.#environment?.leaving();
    await this.send({ case: "leaveWorld", value: create(LeaveWorldRequestSchema) }, options);
  }

  async drain(options?: WaitOptions): Promise<void> {
    this.#lifeline.drain();
    const error = await waitFor(this.closed, `draining the connection to ${this.peer}`, options);
    if (error !== undefined) throw error;
  }

  close(options: { readonly timeoutMs?: number } = {}): Promise<void> {
    this.#closing ??= this.#close(options.timeoutMs ?? defaultCloseTimeoutMs);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(timeoutMs: number): Promise<void> {
    this.#lifeline.end();
    const timer = setTimeout(
      () => {
        const why = `the server did not end the stream within ${timeoutMs} ms of its close`;
        this.#lifeline.pipeline.abort(new DmEnvRpcError("CANCELLED", why, { origin: "client" }));
      },
      Math.min(timeoutMs, maxTimeoutMs),
    );
    await this.closed;
    clearTimeout(timer);
    await this.#lifeline.release();
  }

  /** Called as soon as a request is answered in kind, before any later answer is read. */
  #noticed(request: ProcessRequest): void {
    const environment = this.#environment;
    if (environment === undefined) return;
    if (request.case === "leaveWorld") {
      environment.left();
      this.#environment = undefined;
      this.#lifeline.passenger = undefined;
    } else if (request.case === "reset") environment.interrupted();
    else if (request.case === "resetWorld" && request.value.worldName === environment.world)
      environment.interrupted();
  }
}
