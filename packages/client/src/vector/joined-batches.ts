// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, TensorError } from "@dm-env-rpc/tensor-codec";
import type {
  AutoresetMode,
  VectorBatch,
  VectorCloseOptions,
  VectorEnvironment,
  VectorResetOptions,
} from "../environment/vector.ts";
import { type WaitOptions, waitFor } from "../stream/wait.ts";
import { JoinedRows, rowsOf } from "./joined-rows.ts";
import { absentRows, type RestartingBatch } from "./restarting-batch.ts";

/** A batch, with its slots in the vector. */
export interface BatchPart<Action, Observation> {
  /** Numbers of the slots in the vector, ascending. */
  readonly slots: readonly number[];
  readonly batch: RestartingBatch<Action, Observation>;
}

/** A `BatchPart` with the state of its recreation. */
interface Member<Action, Observation> extends BatchPart<Action, Observation> {
  /** The latest batch; absent rows take their shapes from it. */
  last: VectorBatch<Observation> | undefined;
  /** Set while the batch is being recreated; resolves once it has been or its recreation has failed. */
  recreating: Promise<void> | undefined;
  /** The first steps of a batch that has been recreated, for the next call. */
  recreated: VectorBatch<Observation> | undefined;
}

/**
 * Batches on several servers as one vector. Each step is one message to each server. The slots of a lost server are
 * absent until its batch has been recreated; the other slots do not wait for them.
 */
export class JoinedBatches<Action, Observation> implements VectorEnvironment<Action, Observation> {
  readonly size: number;
  readonly batchSize: number;
  readonly autoresetMode: AutoresetMode;
  readonly #members: readonly Member<Action, Observation>[];
  readonly #rows: JoinedRows<Observation>;
  readonly #ids: readonly number[];
  #isReset = false;
  #isOpen = false;
  /** Outcome of the step that was sent but not received. */
  #sent: Promise<PromiseSettledResult<VectorBatch<Observation>>> | undefined;
  #closing: Promise<void> | undefined;

  constructor(
    parts: readonly BatchPart<Action, Observation>[],
    autoresetMode: AutoresetMode,
    reuse: boolean,
  ) {
    const size = parts.reduce((sum, { slots }) => sum + slots.length, 0);
    this.size = size;
    this.batchSize = size;
    this.autoresetMode = autoresetMode;
    this.#members = parts.map((part) => ({
      ...part,
      last: undefined,
      recreating: undefined,
      recreated: undefined,
    }));
    this.#ids = Array.from({ length: size }, (_, slot) => slot);
    this.#rows = new JoinedRows(
      parts.map(({ slots }) => slots),
      reuse,
    );
  }

  async reset(options: VectorResetOptions = {}): Promise<VectorBatch<Observation>> {
    this.#begin();
    return await this.#open(() => this.#reset(options));
  }

  async #reset({ mask, settings, ...wait }: VectorResetOptions): Promise<VectorBatch<Observation>> {
    if (mask === undefined) {
      for (const member of this.#members) {
        member.recreated = undefined;
      }
    }
    const batch = await this.#together(({ batch: part, slots }) =>
      part.reset({
        ...wait,
        mask: mask && slots.map((slot) => mask[slot] === true),
        settings: settings && ((row) => settings(slots[row] as number)),
      }),
    );
    this.#isReset = true;
    return batch;
  }

  async step(
    actions: readonly Action[] | Action,
    options?: WaitOptions,
  ): Promise<VectorBatch<Observation>> {
    this.#begin();
    return await this.#open(() => this.#step(actions, options));
  }

  async #step(
    actions: readonly Action[] | Action,
    options: WaitOptions | undefined,
  ): Promise<VectorBatch<Observation>> {
    if (!this.#isReset) {
      throw refused("cannot step before the first reset; call reset() first");
    }
    const split = this.#split(actions);
    return await this.#together((member, index) =>
      member.batch.step(split[index] as Action, options),
    );
  }

  /** Returns the actions of each part. */
  #split(actions: readonly Action[] | Action): (readonly Action[] | Action)[] {
    if (!Array.isArray(actions)) {
      return this.#members.map(({ slots }) => rowsOf(actions, slots, this.size) as Action);
    }
    const list = actions as readonly Action[];
    if (list.length !== this.size) {
      throw new TensorError({
        reason: "shape",
        expected: `an action for each of ${this.size} slots`,
        received: `${list.length}`,
      });
    }
    return this.#members.map(({ slots }) => slots.map((slot) => list[slot] as Action));
  }

  sendReset(ids: readonly number[] = this.#ids): void {
    this.#begin();
    this.#checkAll(ids);
    this.#keep(this.#reset({}));
  }

  send(actions: readonly Action[] | Action, ids: readonly number[] = this.#ids): void {
    this.#begin();
    this.#checkAll(ids);
    this.#keep(this.#step(actions, undefined));
  }

  #keep(sent: Promise<VectorBatch<Observation>>): void {
    this.#sent = Promise.allSettled([sent]).then(([outcome]) => outcome);
  }

  async recv(options?: WaitOptions): Promise<VectorBatch<Observation>> {
    const sent = this.#sent;
    if (sent === undefined) {
      throw refused("cannot recv with nothing sent; call send() first");
    }
    // Rejects if the caller stops waiting: the next `recv` then returns this step.
    const outcome = await waitFor(sent, `a step of ${this.size} slots`, options);
    this.#sent = undefined;
    return settledValue(outcome);
  }

  /** Calls all parts concurrently, except parts that are being recreated. */
  async #together(
    call: (member: Member<Action, Observation>, index: number) => Promise<VectorBatch<Observation>>,
  ): Promise<VectorBatch<Observation>> {
    await this.#somePresent();
    const settled = await Promise.allSettled(
      this.#members.map((member, index) => this.#rowsOf(member, () => call(member, index))),
    );
    return this.#rows.joined(settled.map((outcome) => settledValue(outcome)));
  }

  /**
   * Waits until at least one part can step.
   *
   * @throws the error of a part once every part has failed permanently.
   */
  async #somePresent(): Promise<void> {
    while (this.#members.every((member) => isAbsent(member))) {
      const recreations = this.#members.flatMap(({ recreating }) => recreating ?? []);
      if (recreations.length === 0) {
        throw this.#members.map(({ batch }) => batch.failure)[0];
      }
      await Promise.race(recreations);
    }
  }

  async #rowsOf(
    member: Member<Action, Observation>,
    call: () => Promise<VectorBatch<Observation>>,
  ): Promise<VectorBatch<Observation>> {
    const { last, recreated } = member;
    if (recreated !== undefined) {
      member.recreated = undefined;
      return recreated;
    }
    if (last !== undefined && isAbsent(member)) {
      return absentRows(last, null);
    }
    member.last = await call();
    if (member.batch.isRecreating) {
      member.recreating = this.#recreation(member);
    }
    return member.last;
  }

  /** Waits until a batch has been recreated. Never rejects: `batch.failure` holds the error. */
  async #recreation(member: Member<Action, Observation>): Promise<void> {
    try {
      member.recreated = await member.batch.reset();
    } catch {
      // `batch.failure` is set.
    } finally {
      member.recreating = undefined;
    }
  }

  async #open(call: () => Promise<VectorBatch<Observation>>): Promise<VectorBatch<Observation>> {
    this.#isOpen = true;
    try {
      return await call();
    } finally {
      this.#isOpen = false;
    }
  }

  #begin(): void {
    if (this.#closing !== undefined) {
      throw refused("cannot use a vector that is closed; create another");
    }
    if (this.#isOpen || this.#sent !== undefined) {
      throw refused("cannot step while a step is open; await it first, or recv() what was sent");
    }
  }

  #checkAll(ids: readonly number[]): void {
    if (ids.length !== this.size || !ids.every((id, at) => id === at)) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `the slots of batches are stepped together: expected the ids 0 to ${this.size - 1} in order, received ${ids.length} ids; to send to some of them, use vectorize() with batch: false`,
        { origin: "client" },
      );
    }
  }

  async leave(ids: readonly number[], options?: VectorCloseOptions): Promise<void> {
    if (ids.length === 0) {
      return;
    }
    if (new Set(ids).size !== this.size) {
      throw refused(
        `the slots of batches leave together: expected all ${this.size}, received ${ids.length}`,
      );
    }
    await this.close(options);
  }

  close(options?: VectorCloseOptions): Promise<void> {
    this.#closing ??= this.#close(options);
    return this.#closing;
  }

  async #close(options: VectorCloseOptions | undefined): Promise<void> {
    await Promise.all(this.#members.map(({ batch }) => batch.close(options)));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/** Returns true for a part that is being recreated or has failed permanently. */
function isAbsent<Action, Observation>(member: Member<Action, Observation>): boolean {
  const { batch, recreating } = member;
  return recreating !== undefined || batch.failure !== undefined;
}

function settledValue<T>(outcome: PromiseSettledResult<T>): T {
  if (outcome.status === "rejected") {
    throw outcome.reason;
  }
  return outcome.value;
}

function refused(message: string): DmEnvRpcError {
  return new DmEnvRpcError("FAILED_PRECONDITION", message, { origin: "client" });
}
