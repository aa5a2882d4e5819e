// SPDX-License-Identifier: Apache-2.0

import { flattenSpecs, isTensorError, type Settings } from "@dm-env-rpc/tensor-codec";
import { type BackoffOptions, backoffMs, toError } from "@dm-env-rpc/transport/internal";
import { isTensor } from "../environment/batch/columns.ts";
import type { Environment } from "../environment/environment.ts";
import type { TimeStep } from "../environment/time-step.ts";
import type { AutoresetMode, SequenceInfo, VectorCloseOptions } from "../environment/vector.ts";
import { defaultMaxAttempts, pause } from "../stream/backoff.ts";
import { copied } from "../stream/copied.ts";
import { endsAgent, isRefusal } from "../stream/faults.ts";
import { timeLeft } from "../stream/wait.ts";
import type { SlotFactory } from "./vectorize-options.ts";

const defaultCloseTimeoutMs = 2_000;

/** The result of a slot for one row of a batch. */
export interface Arrival<Observation> {
  readonly slot: number;
  /** Undefined if the row is not `valid` (see VectorBatch). */
  readonly step: TimeStep<Observation> | undefined;
  /** In mode `same-step`, the step that ended the sequence before `step`. */
  readonly final: TimeStep<Observation> | undefined;
  readonly info: SequenceInfo | null;
  readonly failure: Error | null;
  /** The error with which the server refused the action or the reset; the slot has not stepped. */
  readonly refusal: Error | null;
}

/** The parts of the vector that its slots use. */
export interface SlotContext<Action, Observation> {
  readonly autoresetMode: AutoresetMode;
  readonly restart: BackoffOptions | "never";
  readonly seed: bigint | undefined;
  readonly buffers: "fresh" | "reuse";
  readonly signal: AbortSignal;
  /** Runs a task once fewer than `maxConcurrency` others are running. */
  limit<T>(task: () => Promise<T>): Promise<T>;
  /** Checks that an environment has the same specs as the other slots. */
  check(environment: Environment<Action, Observation>): void;
  /** Called when a slot that was stepped has a result: a step, a refusal or a failure. */
  onArrival(arrival: Arrival<Observation>): void;
  /** Called when a failed slot has been recreated, with its first step, or has failed permanently. */
  onRecreated(arrival: Arrival<Observation>): void;
  /** Called when an action or settings did not fit; the slot has not stepped. */
  onMisfit(slot: number, error: Error): void;
}

/** One environment of a vector: steps it, counts its sequence, and recreates it when it fails. */
export class Slot<Action, Observation> {
  readonly index: number;
  /** The first step of a slot that was recreated between two batches, or the error if that failed. */
  held: Arrival<Observation> | undefined;
  /** True if its sequence has ended and the next has not begun. */
  over = true;
  readonly #factory: SlotFactory<Action, Observation>;
  readonly #context: SlotContext<Action, Observation>;
  #environment: Environment<Action, Observation> | undefined;
  #busy = false;
  #isRecreating = false;
  #restarts = 0;
  #steps = 0;
  #return = 0;
  #final: TimeStep<Observation> | undefined;
  #finalInfo: SequenceInfo | null = null;
  #failure: Error | undefined;
  #left = false;
  readonly #onStep = (step: TimeStep<Observation>): void => this.#stepped(step);
  readonly #onError = (error: unknown): void => this.#failed(error);

  constructor(
    index: number,
    factory: SlotFactory<Action, Observation>,
    context: SlotContext<Action, Observation>,
  ) {
    this.index = index;
    this.#factory = factory;
    this.#context = context;
  }

  get environment(): Environment<Action, Observation> | undefined {
    return this.#environment;
  }

  /** True while the slot waits for a response. */
  get busy(): boolean {
    return this.#busy;
  }

  /** True if the slot will report a step, a reset or a failure without a further call. */
  get pending(): boolean {
    return this.#busy || (this.#isRecreating && !this.#left);
  }

  /** Error of a slot that has failed permanently. */
  get failure(): Error | undefined {
    return this.#failure;
  }

  /** True if the slot has been removed permanently. */
  get left(): boolean {
    return this.#left;
  }

  /** Creates the environment. */
  async make(): Promise<void> {
    this.#environment = await this.#create();
  }

  /** Steps the environment. A slot without an environment produces its arrival at once. */
  step(action: Action): void {
    this.#start((environment) => environment.step(action));
  }

  /** Begins a new sequence. */
  reset(settings: Settings | undefined): void {
    this.#start((environment) => environment.reset({ settings }));
  }

  /** Closes the slot: it produces no more arrivals and is not recreated. */
  async close(options?: VectorCloseOptions): Promise<void> {
    const environment = this.#environment;
    this.#environment = undefined;
    this.#left = true;
    this.held = undefined;
    await dispose(environment, options);
  }

  /** Starts a step or a reset. A slot without an environment reports its state at once. */
  #start(
    stepOf: (environment: Environment<Action, Observation>) => Promise<TimeStep<Observation>>,
  ): void {
    const { held } = this;
    if (held !== undefined) {
      this.held = undefined;
      this.#context.onArrival(held);
    } else if (this.#environment === undefined) {
      this.#context.onArrival(this.#arrival(undefined, this.#failure ?? null));
    } else {
      this.#busy = true;
      stepOf(this.#environment).then(this.#onStep, this.#onError);
    }
  }

  #stepped(step: TimeStep<Observation>): void {
    if (step.first()) {
      this.#begins();
    } else {
      this.#steps++;
      this.#return += step.reward ?? 0;
    }
    this.over = step.last();
    if (step.last()) {
      const state = step.state === "terminated" ? "terminated" : "interrupted";
      this.#finalInfo = { state, steps: this.#steps, return: this.#return };
      if (this.#context.autoresetMode === "same-step" && this.#environment !== undefined) {
        this.#final = { ...step, observation: withOwnTensors(step.observation) };
        this.#environment.reset().then(this.#onStep, this.#onError);
        return;
      }
    }
    this.#busy = false;
    this.#context.onArrival(this.#arrival(step, null));
  }

  #failed(reason: unknown): void {
    const error = toError(reason);
    const environment = this.#environment;
    this.#busy = false;
    if (environment !== undefined && isMisfit(error, environment.specs)) {
      this.#context.onMisfit(this.index, error);
      return;
    }
    if (isRefusal(error) && !endsAgent(error)) {
      this.#context.onArrival(this.#arrival(undefined, null, error));
      return;
    }
    this.#environment = undefined;
    const { restart } = this.#context;
    if (restart === "never") {
      this.#failure = error;
      void dispose(environment);
    } else {
      this.#isRecreating = true;
      void this.#recreate(environment, restart, error);
    }
    this.#context.onArrival(this.#arrival(undefined, error));
  }

  async #create(): Promise<Environment<Action, Observation>> {
    const { seed, buffers, signal } = this.#context;
    const environment = await this.#context.limit(() =>
      this.#factory({
        slot: this.index,
        seed: seed === undefined ? undefined : seed + BigInt(this.index),
        restarts: this.#restarts,
        buffers,
        signal,
      }),
    );
    try {
      this.#context.check(environment);
      return environment;
    } catch (error) {
      await dispose(environment);
      throw error;
    }
  }

  async #recreate(
    environment: Environment<Action, Observation> | undefined,
    restart: BackoffOptions,
    lost: Error,
  ): Promise<void> {
    const { signal } = this.#context;
    await dispose(environment);
    let failure = lost;
    const { maxAttempts = defaultMaxAttempts } = restart;
    for (let attempt = 1; attempt <= maxAttempts && !this.#left; attempt++) {
      let made: Environment<Action, Observation> | undefined;
      try {
        await pause(backoffMs(attempt, restart), `recreating slot ${this.index}`, signal);
        this.#restarts++;
        if (this.#left) {
          return;
        }
        made = await this.#create();
        const first = await made.reset();
        if (this.#left) {
          throw new Error(`slot ${this.index} has left`);
        }
        this.#environment = made;
        this.#isRecreating = false;
        this.#begins();
        this.over = first.last();
        this.#context.onRecreated(this.#arrival(first, null));
        return;
      } catch (error) {
        await dispose(made);
        failure = toError(error);
      }
    }
    if (!this.#left) {
      this.#isRecreating = false;
      this.#failure = failure;
      this.#context.onRecreated(this.#arrival(undefined, failure));
    }
  }

  #begins(): void {
    this.#steps = 0;
    this.#return = 0;
  }

  #arrival(
    step: TimeStep<Observation> | undefined,
    failure: Error | null,
    refusal: Error | null = null,
  ): Arrival<Observation> {
    const [final, info] = [this.#final, this.#finalInfo];
    this.#final = undefined;
    this.#finalInfo = null;
    return { slot: this.index, step, final, info, failure, refusal };
  }
}

/** Returns the observation with copied tensors. */
function withOwnTensors<Observation>(observation: Observation): Observation {
  const copy = (value: unknown): unknown => {
    if (isTensor(value)) {
      return copied(value);
    }
    if (typeof value !== "object" || value === null || "$typeName" in value) {
      return value;
    }
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, copy(inner)]));
  };
  return copy(observation) as Observation;
}

/**
 * Returns true if the action or the settings, not the response, caused the error. In that case nothing was sent.
 */
function isMisfit(error: Error, specs: Environment["specs"]): boolean {
  // A changed spec has an error of reason `spec`; an observation that was not requested has no name.
  if (!isTensorError(error) || error.reason === "spec" || error.specName === undefined) {
    return false;
  }
  const { specName } = error;
  const isObservation = Object.hasOwn(flattenSpecs(specs.observations), specName);
  return !isObservation || Object.hasOwn(flattenSpecs(specs.actions), specName);
}

/** Closes an environment and its connection, in any state. */
async function dispose(
  environment: Environment<never, unknown> | undefined,
  { timeoutMs = defaultCloseTimeoutMs }: VectorCloseOptions = {},
): Promise<void> {
  if (environment === undefined) {
    return;
  }
  const left = timeLeft({ timeoutMs });
  try {
    await environment.close(left());
  } catch {
    // The connection is closed anyway.
  }
  await environment.connection.close(left());
}
