// SPDX-License-Identifier: Apache-2.0
import {
  type Connection,
  connect,
  type DynamicAction,
  type DynamicObservation,
  type Environment,
  isRefusal,
  type TimeStep,
} from "@dm-env-rpc/client";
import { record } from "@dm-env-rpc/client/recording";
import { isTensorError, type Specs } from "@dm-env-rpc/tensor-codec";
import { merge } from "./controls.ts";

/** The state of a person's seat. */
export interface SeatState {
  readonly kind: "joining" | "playing" | "left";
  /** The reason why the seat was lost, or why the last step was refused. */
  readonly message: string | undefined;
  /** Undefined until the seat's agent has joined. */
  readonly actions: Specs | undefined;
  /** True while a step waits for its answer. */
  readonly isWaiting: boolean;
  readonly step: TimeStep<DynamicObservation> | undefined;
  /** The sum of the rewards in the sequence. */
  readonly return: number;
  /** The return of the previous sequence. */
  readonly lastReturn: number | undefined;
  readonly recordedBytes: number;
}

/** Maximum size of a recording in the page's memory, in bytes; later steps are not recorded. */
const maxRecordedBytes = 64 * 1024 * 1024;

const joining: SeatState = {
  kind: "joining",
  message: undefined,
  actions: undefined,
  isWaiting: true,
  step: undefined,
  return: 0,
  lastReturn: undefined,
  recordedBytes: 0,
};

/** Options of a seat. */
export interface SeatOptions {
  readonly url: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly world: string;
  /** Token of a reserved seat; undefined for any seat. */
  readonly joinToken: string | undefined;
  /** True for a world in real time, for which the actions in force are sent repeatedly. */
  readonly isContinuous: boolean;
  readonly onChange: (state: SeatState) => void;
}

/**
 * A person's seat in a world: an agent whose actions are keys. It plays one sequence after another and records
 * its steps.
 */
export class Seat {
  readonly #options: SeatOptions;
  #state: SeatState = joining;
  #connection: Connection | undefined;
  #isLeft = false;
  readonly #recorded: Uint8Array<ArrayBuffer>[] = [];
  /** The actions of the next step. A later press replaces actions that were not sent. */
  #pressed: DynamicAction | undefined;
  #held: DynamicAction = {};
  #wake: (() => void) | undefined;

  constructor(options: SeatOptions) {
    this.#options = options;
    void this.#play();
  }

  /** Sends actions once, with the next step. */
  press(actions: DynamicAction): void {
    this.#pressed = actions;
    this.#wake?.();
  }

  /** Sets the actions of every step until the next call. */
  hold(actions: DynamicAction): void {
    this.#held = actions;
  }

  /** Returns the recording so far. */
  recording(): Blob {
    return new Blob([...this.#recorded], { type: "application/octet-stream" });
  }

  leave(): void {
    this.#end(undefined);
  }

  #set(change: Partial<SeatState>): void {
    this.#state = { ...this.#state, ...change };
    this.#options.onChange(this.#state);
  }

  #end(message: string | undefined): void {
    if (this.#isLeft) {
      return;
    }
    this.#isLeft = true;
    this.#wake?.();
    this.#set({ kind: "left", message, isWaiting: false });
    void this.#connection?.close();
  }

  async #play(): Promise<void> {
    const { url, metadata, world, joinToken } = this.#options;
    try {
      const connection = await connect(url, { metadata });
      this.#connection = connection;
      if (this.#isLeft) {
        await connection.close();
        return;
      }
      record(connection, { write: (bytes) => this.#keep(bytes) });
      const settings = joinToken === undefined ? {} : { join_token: joinToken };
      const environment = await connection.join(world, { tensors: "copy", settings });
      this.#set({ kind: "playing", actions: environment.specs.actions });
      while (!this.#isLeft) {
        await this.#playSequence(environment);
      }
    } catch (error) {
      this.#end(error instanceof Error ? error.message : String(error));
    }
  }

  #keep(bytes: Uint8Array): void {
    const recordedBytes = this.#state.recordedBytes + bytes.length;
    if (recordedBytes <= maxRecordedBytes) {
      this.#recorded.push(new Uint8Array(bytes));
      this.#state = { ...this.#state, recordedBytes };
    }
  }

  async #playSequence(environment: Environment): Promise<void> {
    this.#set({ isWaiting: true });
    let step = await environment.reset();
    this.#set({ step, return: 0, isWaiting: false });
    while (!step.last() && !this.#isLeft) {
      const actions = await this.#nextActions();
      if (this.#isLeft) {
        return;
      }
      this.#set({ isWaiting: true, message: undefined });
      try {
        step = await environment.step(actions);
      } catch (error) {
        // The world refuses this step, so the person can choose other actions.
        if (!isTensorError(error) && !isRefusal(error)) {
          throw error;
        }
        this.#set({ isWaiting: false, message: error.message });
        continue;
      }
      const sum = this.#state.return + (step.reward ?? 0);
      const lastReturn = step.last() ? sum : this.#state.lastReturn;
      this.#set({ step, return: sum, lastReturn, isWaiting: false });
    }
  }

  async #nextActions(): Promise<DynamicAction> {
    if (!this.#options.isContinuous && this.#pressed === undefined) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
    const actions = merge(this.#held, this.#pressed ?? {});
    this.#pressed = undefined;
    return actions;
  }
}
