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

/** Slots of a vector that are one batch. */
export interface BatchPart<Action, Observation> {
  /** Their numbers in the vector, ascending. */
  readonly slots: readonly number[];
  readonly batch: RestartingBatch<Action, Observation>;
}

/** A part, and its batch while that is being made again. */
interface Member<Action, Observation> extends BatchPart<Action, Observation> {
  /** The latest rows, for the shapes of rows that are absent. */
  last: VectorBatch<Observation> | undefined;
  /** Settles once the batch has been made again, or cannot be. */
  return: Promise<void> | undefined;
  /** The first steps of a batch that has been made again, for the next call. */
  returned: VectorBatch<Observation> | undefined;
}

/**
 * Batches on several servers as one vector. Each step is one message to each of them. The slots of a server that is
 * lost are absent until its batch has been made again; the others do not wait for them.
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
  /** A step that was sent and not received. */
  #sent: Promise<VectorBatch<Observation>> | undefined;
  /** True once that step has been answered. */
  #isSettled = false;
  #closing: Promise<void> | undefined;

  constructor(parts: readonly BatchPart<Action, Observation>[], reuse: boolean) {
    const size = parts.reduce((sum, { slots }) => sum + slots.length, 0);
    this.size = size;
    this.batchSize = size;
    this.autoresetMode = parts[0]?.batch.autoresetMode ?? "next-step";
    this.#members = parts.map((part) => ({
      ...part,
      last: undefined,
      return: undefined,
      returned: undefined,
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
    for (const member of this.#members) {
      if (mask === undefined) {
        member.returned = undefined;
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

  /** The actions of each part. */
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
    this.#isSettled = false;
    const settle = (): void => {
      this.#isSettled = true;
    };
    sent.then(settle, settle); // `recv` has the outcome.
    this.#sent = sent;
  }

  async recv(options?: WaitOptions): Promise<VectorBatch<Observation>> {
    const sent = this.#sent;
    if (sent === undefined) {
      throw refused("cannot recv with nothing sent; send() first");
    }
    try {
      return await waitFor(sent, `a step of ${this.size} slots`, options);
    } finally {
      // A call that was given up leaves the step to the next one.
      if (this.#isSettled) {
        this.#sent = undefined;
      }
    }
  }

  /** Calls every part at once, except those that are being made again. */
  async #together(
    call: (member: Member<Action, Observation>, index: number) => Promise<VectorBatch<Observation>>,
  ): Promise<VectorBatch<Observation>> {
    await this.#somePresent();
    const settled = await Promise.allSettled(
      this.#members.map((member, index) => this.#rowsOf(member, () => call(member, index))),
    );
    const parts = settled.map((one) => {
      if (one.status === "rejected") {
        throw one.reason;
      }
      return one.value;
    });
    return this.#rows.joined(parts);
  }

  /** @throws the error of a part once every part is gone for good. */
  async #somePresent(): Promise<void> {
    while (this.#members.every((member) => member.returned === undefined && isAbsent(member))) {
      const returns = this.#members.flatMap((member) =>
        member.batch.failure === undefined ? [this.#return(member)] : [],
      );
      if (returns.length === 0) {
        throw this.#members[0]?.batch.failure;
      }
      await Promise.race(returns);
    }
  }

  async #rowsOf(
    member: Member<Action, Observation>,
    call: () => Promise<VectorBatch<Observation>>,
  ): Promise<VectorBatch<Observation>> {
    const { batch, last, returned } = member;
    if (returned !== undefined) {
      member.returned = undefined;
      return returned;
    }
    if (last !== undefined && isAbsent(member)) {
      if (batch.failure === undefined) {
        void this.#return(member);
      }
      return absentRows(last, null);
    }
    member.last = await call();
    return member.last;
  }

  /** Waits for a batch that is being made again; never rejects, as its failure is the batch's own. */
  #return(member: Member<Action, Observation>): Promise<void> {
    member.return ??= this.#returnOf(member);
    return member.return;
  }

  async #returnOf(member: Member<Action, Observation>): Promise<void> {
    try {
      member.returned = await member.batch.reset();
      member.last = member.returned;
    } catch {
      // The batch has its failure, or is being made again once more.
    } finally {
      member.return = undefined;
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
      throw refused("cannot step a vector that is closed; make another");
    }
    if (this.#isOpen || this.#sent !== undefined) {
      throw refused("cannot step while a step is open; await it, or recv() what was sent, first");
    }
  }

  #checkAll(ids: readonly number[]): void {
    if (ids.length !== this.size || !ids.every((id, at) => id === at)) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `the slots of batches are stepped together: expected the ids 0 to ${this.size - 1} in order, received ${ids.length} ids; use a vector of streams to send to some`,
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

/** True for a part that is being made again, or is gone for good. */
function isAbsent<Action, Observation>(member: Member<Action, Observation>): boolean {
  const { batch, return: making } = member;
  return making !== undefined || batch.isBeingMade || batch.failure !== undefined;
}

function refused(message: string): DmEnvRpcError {
  return new DmEnvRpcError("FAILED_PRECONDITION", message, { origin: "client" });
}
