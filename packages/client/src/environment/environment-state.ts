// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { ResetRequestSchema } from "@dm-env-rpc/protocol";
import {
  DmEnvRpcError,
  type DmEnvSpec,
  type DmEnvSpecs,
  type Specs,
} from "@dm-env-rpc/tensor-codec";
import { packSettings } from "@dm-env-rpc/tensor-codec/proto";
import type { StepRequest, StepResponse } from "@dm-env-rpc/tensor-codec/wire";
import type { Pipeline } from "../stream/pipeline.ts";
import { timeLeft, type WaitOptions, waitFor } from "../stream/wait.ts";
import { AgentView } from "./agent-view.ts";
import type { DynamicAction, DynamicObservation } from "./definition.ts";
import type { Connection, Environment, JoinOptions, ResetOptions } from "./environment.ts";
import { checkUnchanged, type SpecTables, tablesOf } from "./join-specs.ts";
import { BatchCall, StepCall, type Stepper } from "./step-calls.ts";
import { type AgentState, agentState, type TimeStep } from "./time-step.ts";

type Step = TimeStep<DynamicObservation>;

const defaultCloseTimeoutMs = 5_000;

/** An agent in a world: its position in the sequence, and its calls. */
export class EnvironmentState implements Environment, Stepper {
  readonly world: string;
  readonly connection: Connection;
  #pipeline: Pipeline;
  readonly #options: JoinOptions;
  readonly #recycles: boolean;
  #view: AgentView;
  #state: AgentState = "terminated";
  /**
   * Set while a reset waits for its response or a lost connection is reopened; later calls wait for
   * it.
   */
  #gate: Promise<void> | undefined;
  /** The error of a lost connection, if no step has rejected with it yet. */
  #unreported: Error | undefined;
  /** The error that ended the environment. */
  #over: Error | undefined;
  #hasLeft = false;
  #closing: Promise<void> | undefined;

  /** @throws TensorError if the options do not match the specs. */
  constructor(
    pipeline: Pipeline,
    world: string,
    tables: SpecTables,
    options: JoinOptions,
    connection: Connection,
  ) {
    this.world = world;
    this.connection = connection;
    this.#pipeline = pipeline;
    this.#options = options;
    this.#recycles = options.tensors === "reuse" || options.tensors === "copy";
    this.#view = new AgentView(tables, options);
  }

  get specs(): { readonly actions: Specs; readonly observations: Specs } {
    return this.#view.specs;
  }

  step(action: DynamicAction, options?: WaitOptions): Promise<Step> {
    if (this.#gate !== undefined) {
      return this.#behindGate(options, (left) => this.step(action, left));
    }
    let call: StepCall;
    try {
      this.#reportLoss();
      call = new StepCall(this, this.request(action));
    } catch (error) {
      return Promise.reject(error);
    }
    if (options !== undefined) {
      call.watch(this.#waitingFor, options);
    }
    if (this.#recycles && this.#pipeline.idle) {
      this.#pipeline.recycle();
    }
    this.#pipeline.submit(call);
    return call.promise;
  }

  stepMany(actions: Iterable<DynamicAction>, options?: WaitOptions): Promise<Step[]> {
    if (this.#gate !== undefined) {
      return this.#behindGate(options, (left) => this.stepMany(actions, left));
    }
    let call: BatchCall;
    try {
      this.#reportLoss();
      call = new BatchCall(this, actions);
    } catch (error) {
      return Promise.reject(error);
    }
    call.watch(`stepMany in world "${this.world}"`, options);
    this.#pipeline.submit(call);
    return call.promise;
  }

  async reset(options: ResetOptions = {}): Promise<Step> {
    const left = timeLeft(options);
    while (this.#gate !== undefined) {
      await waitFor(this.#gate, this.#waitingFor, left());
    }
    this.#unreported = undefined;
    if (options.settings === undefined && this.#sequenceIsOver) {
      return this.step({}, left());
    }
    let done: () => void = () => undefined;
    const gate = new Promise<void>((resolve) => {
      done = resolve;
    });
    this.#gate = gate;
    try {
      if (this.#over !== undefined) {
        throw this.#over;
      }
      const settings = packSettings(options.settings ?? {}, this.#options.as?.resetSettings);
      const value = create(ResetRequestSchema, { settings });
      await this.#pipeline.call({ case: "reset", value }, left(), ({ value: { specs } }) =>
        this.#hasSpecs(tablesOf(specs)),
      );
    } finally {
      if (this.#gate === gate) {
        this.#gate = undefined;
      }
      done();
    }
    return this.step({}, left());
  }

  close({ timeoutMs = defaultCloseTimeoutMs, ...options }: WaitOptions = {}): Promise<void> {
    this.#closing ??= this.#close({ ...options, timeoutMs });
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Called when the agent's sequence was cut short: its next step is a first step. */
  interrupted(): void {
    this.#state = "interrupted";
  }

  /** Called when the agent leaves its world: outstanding steps reject. */
  leaving(): void {
    this.#pipeline.cancelSteps(
      new DmEnvRpcError(
        "CANCELLED",
        `the agent left world "${this.world}" before this step was answered; await steps before leaving`,
        { origin: "client" },
      ),
    );
  }

  /** Called when the agent has left its world. */
  left(): void {
    this.#hasLeft = true;
    this.#over ??= new DmEnvRpcError(
      "FAILED_PRECONDITION",
      `the agent has left world "${this.world}" and cannot step; join it again`,
      { origin: "client" },
    );
  }

  /** Called when the connection is lost; calls wait until the promise resolves. */
  suspend(until: Promise<void>): void {
    this.#gate = until;
    void until.then(() => {
      if (this.#gate === until) {
        this.#gate = undefined;
      }
    });
  }

  /**
   * Called when the agent has joined again through another pipeline.
   *
   * @param unreported The error of the lost connection, if no open step or reset rejects with it.
   */
  rejoined(pipeline: Pipeline, tables: SpecTables, unreported: Error | undefined): void {
    this.#pipeline = pipeline;
    this.#unreported = unreported;
    try {
      this.#hasSpecs(tables);
    } catch {
      // The next call reports the change.
    }
  }

  /** Called when the agent cannot join again. */
  gone(error: Error): void {
    this.#over ??= error;
    this.#hasLeft = true;
  }

  /** @throws TensorError if the action does not fit. */
  request(action: DynamicAction): StepRequest {
    if (this.#over !== undefined) {
      throw this.#over;
    }
    const view = this.#view;
    return {
      actions: this.#sequenceIsOver ? [] : view.pack(action),
      requestedObservations: view.requested,
    };
  }

  /** Applies the response's state. May throw. */
  answer(response: StepResponse): Step {
    const before = this.#state;
    this.#state = agentState(response.state) ?? before;
    return this.#view.timeStep(before, response);
  }

  actionSpec(): DmEnvSpecs {
    return this.#view.actionSpec();
  }

  observationSpec(): DmEnvSpecs {
    return this.#view.observationSpec;
  }

  rewardSpec(): DmEnvSpec {
    return this.#view.signalSpec("reward");
  }

  discountSpec(): DmEnvSpec {
    return this.#view.signalSpec("discount");
  }

  /** True if the next request is known to begin a sequence, whatever its action. */
  get #sequenceIsOver(): boolean {
    return this.#state !== "running" && this.#pipeline.idle;
  }

  get #waitingFor(): string {
    return `a step in world "${this.world}"`;
  }

  /** Runs a call once the gate is open. Waiting calls keep their order. */
  async #behindGate<T>(
    options: WaitOptions | undefined,
    task: (left: WaitOptions | undefined) => Promise<T>,
  ): Promise<T> {
    const left = timeLeft(options);
    if (this.#gate !== undefined) {
      await waitFor(this.#gate, this.#waitingFor, left());
    }
    return await task(left());
  }

  /** Throws the error of a lost connection once, so that no step silently continues in a new sequence. */
  #reportLoss(): void {
    const error = this.#unreported;
    this.#unreported = undefined;
    if (error !== undefined) {
      throw error;
    }
  }

  /** Called when the server has sent the specs again and no sequence is running. */
  #hasSpecs(tables: SpecTables): void {
    this.#state = "interrupted";
    try {
      if (this.#options.changedSpecs !== "accept") {
        checkUnchanged(this.#view.tables, tables);
      } else {
        this.#view = new AgentView(tables, this.#options);
      }
    } catch (error) {
      if (error instanceof Error) {
        this.#over = error;
      }
      throw error;
    }
  }

  async #close(options: WaitOptions): Promise<void> {
    const left = timeLeft(options);
    try {
      const reachable = this.#pipeline.open || this.#gate !== undefined;
      if (!this.#hasLeft && reachable) {
        await this.connection.leave(left());
      }
      if (this.#options.destroyOnClose === true && this.#pipeline.open) {
        await this.connection.destroyWorld(this.world, left());
      }
    } catch (error) {
      // A lost connection has already left the world.
      if (this.#pipeline.open) {
        throw error;
      }
    } finally {
      this.left();
    }
  }
}
