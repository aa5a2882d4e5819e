// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import {
  CreateWorldRequestSchema,
  DestroyWorldRequestSchema,
  JoinWorldRequestSchema,
  LeaveWorldRequestSchema,
  ResetWorldRequestSchema,
} from "@dm-env-rpc/protocol";
import { DmEnvRpcError, type Settings, type Specs } from "@dm-env-rpc/tensor-codec";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import { maxTimeoutMs } from "@dm-env-rpc/transport";
import { BatchedEnvironment } from "../environment/batch/batched-environment.ts";
import { rowsSettings, underRows } from "../environment/batch/join-batch.ts";
import type { ActionOf, NameOf, ObservationOf } from "../environment/definition.ts";
import type {
  BatchJoinOptions,
  Connection,
  Environment,
  JoinOptions,
  SeatsJoinOptions,
  WorldOptions,
} from "../environment/environment.ts";
import { EnvironmentState } from "../environment/environment-state.ts";
import { type SpecTables, tablesOf } from "../environment/join-specs.ts";
import type { VectorEnvironment } from "../environment/vector.ts";
import type { ResponseTo } from "../stream/call.ts";
import type { MessageObserver } from "../stream/pipeline.ts";
import { type WaitOptions, waitFor } from "../stream/wait.ts";
import {
  type OpenStream,
  ReconnectingStream,
  type ReconnectingStreamOptions,
} from "./reconnecting-stream.ts";

const defaultCloseTimeoutMs = 2_000;

/** The requests of one connection, and the agent that joined through it. */
export class ConnectionState implements Connection {
  readonly #stream: ReconnectingStream;
  #environment: EnvironmentState | undefined;
  #closing: Promise<void> | undefined;

  constructor(opened: OpenStream, options: ReconnectingStreamOptions) {
    this.#stream = new ReconnectingStream(opened, options);
  }

  get peer(): string {
    return this.#stream.peer;
  }

  get closed(): Promise<Error | undefined> {
    return this.#stream.closed;
  }

  async send<const R extends ProcessRequest>(
    request: R,
    options?: WaitOptions,
  ): Promise<ResponseTo<R>> {
    return await this.#stream.call(request, options, () => this.#succeeded(request));
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

  join<A extends Specs = Specs, O extends Specs = Specs, const N extends NameOf<O> = never>(
    world: string,
    options: BatchJoinOptions<A, O, N> | SeatsJoinOptions<A, O, N>,
  ): Promise<VectorEnvironment<ActionOf<A>, ObservationOf<O, N>>>;
  join<A extends Specs = Specs, O extends Specs = Specs, const N extends NameOf<O> = never>(
    world: string,
    options?: JoinOptions<A, O, N>,
  ): Promise<Environment<ActionOf<A>, ObservationOf<O, N>>>;
  // The definition and the requested names determine the types; AgentView checks both against the
  // server's specs.
  async join(
    world: string,
    options: JoinOptions | BatchJoinOptions | SeatsJoinOptions = {},
  ): Promise<never> {
    if (!("batch" in options || "seats" in options)) {
      const { environment } = await this.#join(world, options, options.settings, () => options);
      return environment as never;
    }
    const { environment, tables } = await this.#join(
      world,
      options,
      rowsSettings(options),
      (received) => underRows(received, options),
    );
    return new BatchedEnvironment(environment, tables, options) as never;
  }

  async #join(
    world: string,
    { as, ...wait }: Pick<JoinOptions, "as" | "signal" | "timeoutMs">,
    given: Settings | undefined,
    optionsFor: (tables: SpecTables) => JoinOptions,
  ): Promise<{ readonly environment: EnvironmentState; readonly tables: SpecTables }> {
    const own = this.#stream.keepsSeat ? { ...given, seat_key: randomKey() } : (given ?? {});
    const settings = packSettings(own, as?.joinSettings);
    const value = create(JoinWorldRequestSchema, { worldName: world, settings });
    const response = await this.#stream.call({ case: "joinWorld", value }, wait);
    try {
      const tables = tablesOf(response.value.specs);
      const { pipeline } = this.#stream;
      const environment = new EnvironmentState(pipeline, world, tables, optionsFor(tables), this);
      this.#environment = environment;
      this.#stream.joinedAgent = { request: value, environment };
      return { environment, tables };
    } catch (error) {
      await this.leave(wait);
      throw error;
    }
  }

  observe(observer: MessageObserver): () => void {
    return this.#stream.observe(observer);
  }

  async leave(options?: WaitOptions): Promise<void> {
    this.#environment?.leaving();
    await this.send({ case: "leaveWorld", value: create(LeaveWorldRequestSchema) }, options);
  }

  async drain(options?: WaitOptions): Promise<void> {
    this.#stream.drain();
    const error = await waitFor(this.closed, `draining the connection to ${this.peer}`, options);
    if (error !== undefined) {
      throw error;
    }
  }

  close(options: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    this.#closing ??= this.#close(options.timeoutMs ?? defaultCloseTimeoutMs);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(timeoutMs: number): Promise<void> {
    this.#stream.end();
    const timer = setTimeout(
      () => {
        const why = `the server did not end the stream within ${timeoutMs} ms after close()`;
        this.#stream.pipeline.abort(new DmEnvRpcError("CANCELLED", why, { origin: "client" }));
      },
      Math.min(timeoutMs, maxTimeoutMs),
    );
    await this.closed;
    clearTimeout(timer);
    await this.#stream.release();
  }

  /** Called as soon as a request has succeeded, before any later response is read. */
  #succeeded(request: ProcessRequest): void {
    const environment = this.#environment;
    if (environment === undefined) {
      return;
    }
    if (request.case === "leaveWorld") {
      environment.left();
      this.#environment = undefined;
      this.#stream.joinedAgent = undefined;
    } else if (request.case === "reset") {
      environment.interrupted();
    } else if (request.case === "resetWorld" && request.value.worldName === environment.world) {
      environment.interrupted();
    }
  }
}

/** Returns 128 random bits as hexadecimal digits; also works in pages of insecure origins. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
