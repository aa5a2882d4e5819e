// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { LeaveWorldRequestSchema, ResetRequestSchema } from "@dm-env-rpc/protocol";
import {
  DmEnvRpcError,
  type DmEnvSpec,
  type DmEnvSpecs,
  packSettings,
  type Specs,
  type StepRequest,
  type StepResponse,
} from "@dm-env-rpc/tensor-codec";
import { AgentView } from "./agent-view.ts";
import type { Connection } from "./connection.ts";
import type { DynamicAction, DynamicObservation } from "./definition.ts";
import type { Environment, JoinOptions, ResetOptions } from "./environment.ts";
import { checkUnchanged, type SpecTables, tablesOf } from "./join-specs.ts";
import type { Pipeline } from "./pipeline.ts";
import { BatchCall, StepCall, type Stepper } from "./step-calls.ts";
import { type AgentState, agentState, type TimeStep } from "./time-step.ts";
import { timeLeft, type WaitOptions } from "./wait.ts";

type Step = TimeStep<DynamicObservation>;

const defaultCloseTimeoutMs = 5_000;

/** An agent in a world: where it stands in its sequence, and what it may still do. */
export class EnvironmentState implements Environment, Stepper {
  readonly world: string;
  readonly connection: Connection;
  readonly #pipeline: Pipeline;
  readonly #options: JoinOptions;
  #view: AgentView;
  #state: AgentState = "terminated";
  /** While a reset waits for its answer: what is called meanwhile comes after it. */
  #resetting: Promise<void> | undefined;
  /** Why no more steps can be made. */
  #over: Error | undefined;
  #hasLeft = false;
  #closing: Promise<void> | undefined;

  /** @throws TensorError when the options do not go with the specs. */
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
    this.#view = new AgentView(tables, options);
  }

  get specs(): { readonly actions: Specs; readonly observations: Specs } {
    return this.#view.specs;
  }

  step(action: DynamicAction, options?: WaitOptions): Promise<Step> {
    if (this.#resetting !== undefined)
      return this.#resetting.then(() => this.step(action, options));
    let call: StepCall;
    try {
      call = new StepCall(this, this.request(action));
    } catch (error) {
      return Promise.reject(error);
    }
    if (options !== undefined) call.watch(`a step in world "${this.world}"`, options);
    this.#pipeline.submit(call);
    return call.promise;
  }

  stepMany(actions: Iterable<DynamicAction>, options?: WaitOptions): Promise<Step[]> {
    if (this.#resetting !== undefined)
      return this.#resetting.then(() => this.stepMany(actions, options));
    let call: BatchCall;
    try {
      call = new BatchCall(this, actions);
    } catch (error) {
      return Promise.reject(error);
    }
    call.watch(`steps in world "${this.world}"`, options);
    this.#pipeline.submit(call);
    return call.promise;
  }

  async reset(options: ResetOptions = {}): Promise<Step> {
    const left = timeLeft(options);
    while (this.#resetting !== undefined) await this.#resetting;
    if (options.settings === undefined && this.#sequenceIsOver) return this.step({}, left());
    let done: () => void = () => undefined;
    this.#resetting = new Promise((resolve) => {
      done = resolve;
    });
    try {
      if (this.#over !== undefined) throw this.#over;
      const settings = packSettings(options.settings ?? {}, this.#options.as?.resetSettings);
      const value = create(ResetRequestSchema, { settings });
      await this.#pipeline.call({ case: "reset", value }, left(), ({ value: { specs } }) =>
        this.#wasReset(tablesOf(specs)),
      );
    } finally {
      this.#resetting = undefined;
      done();
    }
    return this.step({}, left());
  }

  close(options: WaitOptions = {}): Promise<void> {
    this.#closing ??= this.#close({ timeoutMs: defaultCloseTimeoutMs, ...options });
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** The agent is in no sequence any more: its next step is a first one. */
  interrupted(): void {
    this.#state = "interrupted";
  }

  /** The agent has left its world. */
  left(): void {
    this.#hasLeft = true;
    this.#over ??= new DmEnvRpcError(
      "FAILED_PRECONDITION",
      `the agent has left world "${this.world}" and cannot step; join it again`,
    );
  }

  /** @throws TensorError when the action does not fit. */
  request(action: DynamicAction): StepRequest {
    if (this.#over !== undefined) throw this.#over;
    const view = this.#view;
    return {
      actions: this.#sequenceIsOver ? [] : view.pack(action),
      requestedObservations: view.requested,
    };
  }

  /** Follows the response's state; may throw. */
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

  /** Whether the next request is known to begin a sequence, whatever its action. */
  get #sequenceIsOver(): boolean {
    return this.#state !== "running" && this.#pipeline.idle;
  }

  #wasReset(tables: SpecTables): void {
    this.#state = "interrupted";
    try {
      if (this.#options.changedSpecs !== "accept") checkUnchanged(this.#view.tables, tables);
      else this.#view = new AgentView(tables, this.#options);
    } catch (error) {
      if (error instanceof Error) this.#over = error;
      throw error;
    }
  }

  async #close(options: WaitOptions): Promise<void> {
    const left = timeLeft(options);
    try {
      if (!this.#hasLeft && this.#pipeline.open) {
        const value = create(LeaveWorldRequestSchema);
        await this.#pipeline.call({ case: "leaveWorld", value }, left(), () => this.left());
      }
      if (this.#options.destroyOnClose === true && this.#pipeline.open)
        await this.connection.destroyWorld(this.world, left());
    } catch (error) {
      // A connection that is gone has left the world already.
      if (this.#pipeline.open) throw error;
    } finally {
      this.left();
    }
  }
}
