// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { BackoffOptions } from "@dm-env-rpc/transport/internal";
import { ActionStacker } from "../environment/batch/actions.ts";
import type { Environment } from "../environment/environment.ts";
import type {
  AutoresetMode,
  VectorBatch,
  VectorCloseOptions,
  VectorEnvironment,
  VectorResetOptions,
} from "../environment/vector.ts";
import { type WaitOptions, watch } from "../stream/wait.ts";
import { Batcher } from "./batcher.ts";
import { type Arrival, Slot } from "./slot.ts";
import type { SlotChecker } from "./slot-checker.ts";
import type { SlotFactory } from "./vectorize-options.ts";

/** Dependencies of a vector. */
export interface VectorParts<Action, Observation> {
  readonly autoresetMode: AutoresetMode;
  readonly batchSize: number;
  readonly buffers: "fresh" | "reuse";
  readonly restart: BackoffOptions | "never";
  readonly seed: bigint | undefined;
  readonly closed: AbortController;
  readonly limit: <T>(task: () => Promise<T>) => Promise<T>;
  readonly checker: SlotChecker<Environment<Action, Observation>>;
}

/** A call that waits for the arrivals of `count` slots. */
interface Waiting<Observation> {
  readonly count: number;
  readonly resolve: (batch: VectorBatch<Observation>) => void;
  readonly reject: (error: unknown) => void;
  /** Stops watching the caller's abort signal and timeout, if they are watched. */
  stop: (() => void) | undefined;
}

/** A vector of slots, and the call that waits for their arrivals. */
export class VectorState<Action, Observation> implements VectorEnvironment<Action, Observation> {
  readonly size: number;
  readonly batchSize: number;
  readonly autoresetMode: AutoresetMode;
  readonly #parts: VectorParts<Action, Observation>;
  readonly #slots: readonly Slot<Action, Observation>[];
  #batcher: Batcher<Observation> | undefined;
  /** Splits an action for all slots. */
  #stacker: ActionStacker | undefined;
  #arrivals: Arrival<Observation>[] = [];
  #waiting: Waiting<Observation> | undefined;
  #misfit: Error | undefined;
  #lastPending = 0;
  /**
   * `all` after reset or step; `some` after sendReset, send or recv. With `some`, `recv` returns the
   * first step of a recreated slot without a further send.
   */
  #mode: "none" | "all" | "some" = "none";
  #closing: Promise<void> | undefined;

  constructor(
    factories: readonly SlotFactory<Action, Observation>[],
    parts: VectorParts<Action, Observation>,
  ) {
    this.size = factories.length;
    this.batchSize = parts.batchSize;
    this.autoresetMode = parts.autoresetMode;
    this.#parts = parts;
    this.#slots = factories.map(
      (factory, index) =>
        new Slot(index, factory, {
          autoresetMode: parts.autoresetMode,
          restart: parts.restart,
          seed: parts.seed,
          buffers: parts.buffers,
          signal: parts.closed.signal,
          limit: parts.limit,
          check: (environment) => parts.checker.check(environment, index),
          onArrival: (arrival) => this.#arrived(arrival),
          onRecreated: (arrival) => this.#recreated(arrival),
          onMisfit: (slot, error) => this.#misfitted(slot, error),
        }),
    );
  }

  /** Creates all slots; if one cannot be created, closes the others. */
  async make(): Promise<void> {
    let failure: { readonly reason: unknown } | undefined;
    const making = this.#slots.map(async (slot) => {
      try {
        await slot.make();
      } catch (reason) {
        failure ??= { reason };
        this.#parts.closed.abort(reason);
      }
    });
    await Promise.all(making);
    if (failure !== undefined) {
      throw failure.reason;
    }
    this.#batcher = new Batcher(this.#parts.checker.stacker, this.#parts.buffers === "reuse");
  }

  async reset(options: VectorResetOptions = {}): Promise<VectorBatch<Observation>> {
    this.#begin("all");
    const { mask, settings, ...wait } = options;
    return await this.#all(wait, (slot) => {
      if (mask === undefined || mask[slot.index] === true) {
        slot.held = undefined;
        slot.reset(settings?.(slot.index));
      } else {
        this.#arrived(nothing(slot.index));
      }
    });
  }

  async step(
    given: readonly Action[] | Action,
    options?: WaitOptions,
  ): Promise<VectorBatch<Observation>> {
    if (this.#mode === "none") {
      throw refused("step before the first reset", "call reset() first");
    }
    this.#begin("all");
    const actions = this.#listed(given);
    if (actions.length !== this.size) {
      throw wrongCount(`an action for each of ${this.size} slots`, actions.length);
    }
    if (this.autoresetMode === "disabled") {
      this.#refuseOver();
    }
    return await this.#all(options, (slot) => slot.step(actions[slot.index] as Action));
  }

  sendReset(ids: readonly number[] = this.#present()): void {
    this.#begin("some", "overlapping");
    const slots = ids.map((id) => this.#slot(id));
    for (const slot of slots) {
      slot.reset(undefined);
    }
  }

  send(given: readonly Action[] | Action, some?: readonly number[]): void {
    if (this.#mode === "none") {
      throw refused("send before the first reset", "call sendReset() first");
    }
    this.#begin("some", "overlapping");
    const actions = this.#listed(given);
    const ids = some ?? actions.map((_, index) => index);
    if (ids.length !== actions.length) {
      throw wrongCount(`as many actions as ids, ${ids.length}`, actions.length);
    }
    const slots = ids.map((id) => this.#slot(id));
    slots.forEach((slot, row) => {
      // A slot that is being recreated delivers its first step without a send.
      if (slot.environment !== undefined) {
        slot.step(actions[row] as Action);
      }
    });
  }

  /** Returns an action for each slot, from a list or from one action for all. */
  #listed(given: readonly Action[] | Action): readonly Action[] {
    if (Array.isArray(given)) {
      return given;
    }
    const some = this.#slots.find(({ environment }) => environment !== undefined);
    this.#stacker ??= new ActionStacker(some?.environment?.specs.actions ?? {}, this.size);
    return this.#stacker.unstack(given as object) as Action[];
  }

  async recv(options?: WaitOptions): Promise<VectorBatch<Observation>> {
    this.#begin("some");
    return await this.#nextBatch(this.batchSize, options);
  }

  async leave(ids: readonly number[], options?: VectorCloseOptions): Promise<void> {
    if (this.#closing !== undefined) {
      return await this.#closing;
    }
    const slots = ids.flatMap((id) => (this.#slots[id]?.left === true ? [] : [this.#slot(id)]));
    this.#arrivals = this.#arrivals.filter(({ slot }) => !ids.includes(slot));
    const leaving = slots.map((slot) => slot.close(options));
    this.#wake();
    await Promise.all(leaving);
  }

  close(options?: VectorCloseOptions): Promise<void> {
    this.#closing ??= this.#close(options);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #all(
    options: WaitOptions | undefined,
    go: (slot: Slot<Action, Observation>) => void,
  ): Promise<VectorBatch<Observation>> {
    // Drop arrivals of an earlier call whose wait ended early.
    this.#arrivals = [];
    this.#misfit = undefined;
    for (const slot of this.#slots) {
      go(slot);
    }
    return this.#nextBatch(this.size, options);
  }

  #nextBatch(count: number, options: WaitOptions | undefined): Promise<VectorBatch<Observation>> {
    return new Promise((resolve, reject) => {
      const waiting: Waiting<Observation> = { count, resolve, reject, stop: undefined };
      this.#waiting = waiting;
      waiting.stop = watch(`waiting for ${count} of ${this.size} slots`, options, (error) => {
        this.#waiting = undefined; // Later arrivals belong to the next call.
        reject(error);
      });
      this.#wake();
    });
  }

  #wake(): void {
    const waiting = this.#waiting;
    if (waiting === undefined) {
      return;
    }
    if (this.#arrivals.length < waiting.count && this.#somethingPending()) {
      return;
    }
    this.#waiting = undefined;
    waiting.stop?.();
    try {
      waiting.resolve(this.#batch(waiting.count));
    } catch (error) {
      waiting.reject(error);
    }
  }

  /** @throws the error of an action that did not fit, or of a failed slot once every slot has failed or left. */
  #batch(count: number): VectorBatch<Observation> {
    if (this.#arrivals.length === 0) {
      throw refused("recv with nothing sent", "call send() or sendReset() first");
    }
    const arrivals = this.#arrivals.splice(0, count);
    const misfit = this.#misfit;
    this.#misfit = undefined;
    if (misfit !== undefined) {
      throw misfit;
    }
    if (this.#mode === "all") {
      arrivals.sort((a, b) => a.slot - b.slot);
    }
    const gone = this.#slots.every(({ failure, left }) => left || failure !== undefined);
    const failed = gone ? this.#slots.find(({ failure }) => failure !== undefined) : undefined;
    if (failed !== undefined) {
      throw failed.failure;
    }
    return (this.#batcher as Batcher<Observation>).batch(arrivals);
  }

  /** Starts with the slot that was pending last, so that an arrival does not scan every slot. */
  #somethingPending(): boolean {
    for (let i = 0; i < this.size; i++) {
      const index = (this.#lastPending + i) % this.size;
      if ((this.#slots[index] as Slot<Action, Observation>).pending) {
        this.#lastPending = index;
        return true;
      }
    }
    return false;
  }

  #arrived(arrival: Arrival<Observation>): void {
    this.#arrivals.push(arrival);
    this.#wake();
  }

  #recreated(arrival: Arrival<Observation>): void {
    if (this.#mode === "some") {
      this.#arrived(arrival);
    } else {
      (this.#slots[arrival.slot] as Slot<Action, Observation>).held = arrival;
    }
  }

  #misfitted(slot: number, error: Error): void {
    this.#misfit ??= error;
    this.#arrived(nothing(slot));
  }

  #begin(mode: "all" | "some", call?: "overlapping"): void {
    if (this.#closing !== undefined) {
      throw refused("use a vector that is closed", "create another");
    }
    if (this.#slots.every(({ left }) => left)) {
      throw refused("use a vector whose slots have all left", "create another");
    }
    if (this.#waiting !== undefined && !(call === "overlapping" && this.#mode === "some")) {
      throw refused("start a call while another is open", "await that call first");
    }
    if (mode === "all" && this.#slots.some((slot) => slot.busy)) {
      throw refused("reset or step while slots are stepping", "recv() what was sent first");
    }
    if (mode === "some" && this.#mode === "all") {
      for (const slot of this.#slots) {
        if (slot.held !== undefined) {
          this.#arrivals.push(slot.held);
        }
        slot.held = undefined;
      }
    }
    this.#mode = mode;
  }

  #slot(id: number): Slot<Action, Observation> {
    const slot = this.#slots[id];
    if (slot === undefined) {
      throw refused(`use slot ${id}`, `the vector has slots 0 to ${this.size - 1}`);
    }
    if (slot.busy) {
      throw refused(`use slot ${id}, which is stepping`, "recv() its step first");
    }
    if (slot.left) {
      throw refused(`use slot ${id}, which has left`, "create another vector");
    }
    return slot;
  }

  #present(): number[] {
    return this.#slots.flatMap(({ index, left }) => (left ? [] : [index]));
  }

  #refuseOver(): void {
    const over = this.#slots.filter((slot) => slot.over && slot.environment !== undefined);
    if (over.length === 0) {
      return;
    }
    const ids = over.map(({ index }) => index).join(", ");
    throw refused(`step slots whose sequence has ended: ${ids}`, "reset them with a mask");
  }

  async #close(options: VectorCloseOptions | undefined): Promise<void> {
    this.#parts.closed.abort();
    this.#waiting?.stop?.();
    this.#waiting?.reject(refused("use a vector that is closed", "create another"));
    await Promise.all(this.#slots.map((slot) => slot.close(options)));
  }
}

function nothing<Observation>(slot: number): Arrival<Observation> {
  return { slot, step: undefined, final: undefined, info: null, failure: null, refusal: null };
}

function refused(what: string, remedy: string): DmEnvRpcError {
  return new DmEnvRpcError("FAILED_PRECONDITION", `cannot ${what}; ${remedy}`, {
    origin: "client",
  });
}

function wrongCount(expected: string, received: number): DmEnvRpcError {
  return new DmEnvRpcError("INVALID_ARGUMENT", `expected ${expected}, received ${received}`, {
    origin: "client",
  });
}
