// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, type Settings, type Tensor } from "@dm-env-rpc/tensor-codec";
import { timeLeft, type WaitOptions, waitFor } from "../../stream/wait.ts";
import type { DynamicAction, DynamicObservation } from "../definition.ts";
import type { BatchJoinOptions, Environment, SeatsJoinOptions } from "../environment.ts";
import type { SpecTables } from "../join-specs.ts";
import type {
  AutoresetMode,
  DynamicStacked,
  VectorBatch,
  VectorCloseOptions,
  VectorEnvironment,
  VectorResetOptions,
} from "../vector.ts";
import { ActionStacker } from "./actions.ts";
import { RowArrays } from "./columns.ts";
import { ownNames, rowActions, seedSettings, sizeOf } from "./join-batch.ts";
import { type Received, ReceivedBatch } from "./received-batch.ts";
import { RowCounts } from "./row-counts.ts";
import { sameSettings } from "./same-settings.ts";

type Batch = VectorBatch<DynamicObservation, DynamicStacked>;

const defaultCloseTimeoutMs = 2_000;

/** The slots of a batch, or the seats of a stream, as one vector: each step is one message. */
export class BatchedEnvironment
  implements VectorEnvironment<DynamicAction, DynamicObservation, DynamicStacked>
{
  readonly size: number;
  readonly batchSize: number;
  readonly autoresetMode: AutoresetMode;
  readonly #environment: Environment;
  readonly #stacker: ActionStacker;
  readonly #ids: readonly number[];
  readonly #showsReward: boolean;
  readonly #showsDiscount: boolean;
  /** True after the first reset. */
  #isReset = false;
  /** True if the next step begins the sequence of every slot. */
  #isFresh = true;
  /** The step that was sent but not received. */
  #sent: Promise<Batch> | undefined;
  /** True once the server has answered that step. */
  #isSettled = false;
  #isOpen = false;
  #hasLeft = false;
  /** Number of failures of each slot before the current step. */
  readonly #failures: Uint32Array;
  /** Arrays that every batch reuses; undefined with `buffers: "fresh"`. */
  readonly #reused: RowArrays | undefined;
  readonly #closesConnection: boolean;
  /** Counts the steps of seats, because their server does not send counts; undefined for a batch. */
  readonly #counts: RowCounts | undefined;
  #closing: Promise<void> | undefined;

  /** @param environment Environment joined with the options that `underRows` returns. */
  constructor(
    environment: Environment,
    tables: SpecTables,
    options: BatchJoinOptions | SeatsJoinOptions,
  ) {
    const size = sizeOf(options);
    const batch = "batch" in options ? options : undefined;
    this.size = size;
    this.batchSize = size;
    this.autoresetMode = batch?.autoresetMode ?? "next-step";
    this.#failures = new Uint32Array(size);
    this.#reused = options.buffers === "reuse" ? new RowArrays(size) : undefined;
    this.#closesConnection = batch?.closeConnection === true;
    this.#counts = batch === undefined ? new RowCounts(size) : undefined;
    this.#environment = environment;
    this.#stacker = new ActionStacker(rowActions(tables, options), size);
    this.#ids = Array.from({ length: size }, (_, slot) => slot);
    const shown = ownNames(tables, options);
    this.#showsReward = shown.includes("reward");
    this.#showsDiscount = shown.includes("discount");
  }

  async reset(options: VectorResetOptions = {}): Promise<Batch> {
    const { mask, settings: settingsOf, ...wait } = options;
    this.#begin();
    return await this.#open(async () => {
      const left = timeLeft(wait);
      const flags = mask && Uint8Array.from(this.#ids, (slot) => (mask[slot] === true ? 1 : 0));
      const settings = settingsOf && this.#settings(settingsOf, mask);
      if (settings !== undefined) {
        return await this.#stepped(this.#environment.reset({ ...left(), settings }), flags);
      }
      return await this.#stepped(this.#resetSlots(flags, left()), flags);
    });
  }

  /** Starts new sequences in the slots of the mask, or in all slots of a fresh environment. */
  #resetSlots(flags: Uint8Array | undefined, wait: WaitOptions | undefined) {
    if (this.#counts !== undefined) {
      if (flags?.includes(0) === true) {
        throw refused(
          "INVALID_ARGUMENT",
          "cannot reset only some seats of a stream; reset all of them",
        );
      }
      return this.#environment.reset(wait);
    }
    const action: DynamicAction = this.#isFresh
      ? {}
      : { reset_mask: flags ?? new Uint8Array(this.size).fill(1) };
    return this.#environment.step(action, wait);
  }

  /**
   * Returns the settings of all slots; undefined if no slot has settings.
   *
   * @throws DmEnvRpcError INVALID_ARGUMENT if the settings of slots differ in more than their seeds.
   */
  #settings(
    of: (slot: number) => Settings | undefined,
    mask: readonly boolean[] | undefined,
  ): Settings | undefined {
    const all = this.#ids.map((slot) => of(slot));
    const [first] = all;
    if (all.every((settings) => settings === undefined)) {
      return undefined;
    }
    const seeds = all.flatMap((settings) => {
      const seed = settings?.["seed"];
      return typeof seed === "bigint" ? [BigInt.asUintN(64, seed)] : [];
    });
    const { seed: _seed, ...shared } = first ?? {};
    const isSame = all.every((settings) => {
      const { seed: _own, ...others } = settings ?? {};
      return sameSettings(shared, others);
    });
    const isMasked = mask !== undefined && this.#ids.some((slot) => mask[slot] !== true);
    if (!isSame || isMasked || (seeds.length > 0 && seeds.length !== this.size)) {
      throw refused(
        "INVALID_ARGUMENT",
        `cannot reset slots of a batch with different settings; reset all of them with settings that differ only in "seed", a bigint`,
      );
    }
    return { ...shared, ...(seeds.length > 0 && seedSettings(seeds)) };
  }

  async step(
    actions: readonly DynamicAction[] | DynamicAction,
    options?: WaitOptions,
  ): Promise<Batch> {
    this.#begin();
    if (!this.#isReset) {
      throw refused(
        "FAILED_PRECONDITION",
        "cannot step before the first reset; call reset() first",
      );
    }
    return await this.#open(() => this.#step(actions, options));
  }

  #step(
    actions: readonly DynamicAction[] | DynamicAction,
    options: WaitOptions | undefined,
  ): Promise<Batch> {
    const stacked = isList(actions) ? (this.#stacker.stack(actions) as DynamicAction) : actions;
    return this.#stepped(this.#environment.step(stacked, options), undefined);
  }

  async #open(call: () => Promise<Batch>): Promise<Batch> {
    this.#isOpen = true;
    try {
      return await call();
    } finally {
      this.#isOpen = false;
    }
  }

  /** @throws DmEnvRpcError FAILED_PRECONDITION unless a step is allowed now. */
  #begin(): void {
    if (this.#hasLeft) {
      throw refused("FAILED_PRECONDITION", "cannot use a vector that is closed; create another");
    }
    if (this.#isOpen || this.#sent !== undefined) {
      throw refused(
        "FAILED_PRECONDITION",
        "cannot step while a step is open; await it first, or recv() what was sent",
      );
    }
  }

  async #stepped(
    step: ReturnType<Environment["step"]>,
    mask: Uint8Array | undefined,
  ): Promise<Batch> {
    const { observation, state } = await step;
    this.#isReset = true;
    this.#isFresh = state !== "running";
    const { reward, discount, step_type: stepType, terminated, truncated, ...rest } = observation;
    const {
      episode_return: returns,
      episode_length: lengths,
      slot_failures: failures,
      final,
      ...slots
    } = rest;
    const others = this.#counts === undefined ? slots : rest;
    const isSameStep = this.autoresetMode === "same-step";
    const shown = {
      ...others,
      ...(this.#showsReward && { reward }),
      ...(this.#showsDiscount && { discount }),
      ...(this.#counts === undefined && !isSameStep && final !== undefined && { final }),
    } as DynamicStacked;
    if (mask?.includes(0)) {
      clearRows(shown, mask);
    }
    if (this.#isFresh) {
      cutShort(observation);
    }
    const rewards =
      reward === undefined ? new Float64Array(this.size) : dataOf<Float64Array>(reward);
    const outcome = {
      stepType: dataOf<Uint8Array>(stepType),
      terminated: dataOf<Uint8Array>(terminated),
      truncated: dataOf<Uint8Array>(truncated),
    };
    const received: Received = {
      ...outcome,
      ...(this.#counts?.count(outcome, rewards) ?? {
        lengths: dataOf<BigInt64Array>(lengths),
        returns: dataOf<Float64Array>(returns),
        failed: this.#newFailures(dataOf(failures)),
      }),
      observation: shown,
      final: isSameStep ? ((final ?? {}) as DynamicStacked) : undefined,
      reward: rewards,
      discount: discount === undefined ? undefined : dataOf<Float32Array>(discount),
      mask: mask ?? this.#counts?.present(outcome),
    };
    return new ReceivedBatch(received, this.#ids, this.#reused ?? new RowArrays(this.size));
  }

  #newFailures(failures: Uint32Array): Uint8Array | undefined {
    const before = this.#failures;
    let failed: Uint8Array | undefined;
    for (let slot = 0; slot < failures.length; slot++) {
      if (failures[slot] !== before[slot]) {
        failed ??= new Uint8Array(this.size);
        failed[slot] = 1;
      }
    }
    if (failed !== undefined) {
      before.set(failures);
    }
    return failed;
  }

  sendReset(ids: readonly number[] = this.#ids): void {
    this.#begin();
    this.#checkAll(ids);
    this.#keep(this.#stepped(this.#resetSlots(undefined, undefined), undefined));
  }

  send(
    actions: readonly DynamicAction[] | DynamicAction,
    ids: readonly number[] = this.#ids,
  ): void {
    this.#begin();
    if (!this.#isReset) {
      throw refused(
        "FAILED_PRECONDITION",
        "cannot send before the first reset; call sendReset() first",
      );
    }
    this.#checkAll(ids);
    this.#keep(this.#step(actions, undefined));
  }

  #keep(sent: Promise<Batch>): void {
    this.#isSettled = false;
    const settle = (): void => {
      this.#isSettled = true;
    };
    sent.then(settle, settle); // `recv` reports the outcome.
    this.#sent = sent;
  }

  async recv(options?: WaitOptions): Promise<Batch> {
    const sent = this.#sent;
    if (sent === undefined) {
      throw refused("FAILED_PRECONDITION", "cannot recv with nothing sent; call send() first");
    }
    try {
      return await waitFor(sent, `a step of ${this.size} slots`, options);
    } finally {
      // If the caller stopped waiting, the next `recv` returns this step.
      if (this.#isSettled) {
        this.#sent = undefined;
      }
    }
  }

  #checkAll(ids: readonly number[]): void {
    const isAll = ids.length === this.size && new Set(ids).size === this.size;
    if (!isAll || !ids.every((id, at) => id === at)) {
      throw refused(
        "INVALID_ARGUMENT",
        `the slots of a batch are stepped together: expected the ids 0 to ${this.size - 1} in order, received ${ids.length} ids; to send to some of them, use vectorize() with batch: false`,
      );
    }
  }

  async leave(ids: readonly number[], options?: VectorCloseOptions): Promise<void> {
    if (ids.length === 0) {
      return;
    }
    if (new Set(ids).size !== this.size) {
      throw refused(
        "FAILED_PRECONDITION",
        `the slots of a batch leave together: expected all ${this.size}, received ${ids.length}`,
      );
    }
    await this.close(options);
  }

  close(options: VectorCloseOptions = {}): Promise<void> {
    this.#closing ??= this.#close(options);
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close({ timeoutMs = defaultCloseTimeoutMs }: VectorCloseOptions): Promise<void> {
    this.#hasLeft = true;
    const { connection } = this.#environment;
    const left = timeLeft({ timeoutMs });
    try {
      await this.#environment.close(left());
    } finally {
      if (this.#closesConnection) {
        await connection.close({ timeoutMs: left()?.timeoutMs ?? timeoutMs });
      }
    }
  }
}

function isList(
  actions: readonly DynamicAction[] | DynamicAction,
): actions is readonly DynamicAction[] {
  return Array.isArray(actions);
}

/** Returns the data of a stacked observation. The join has checked its spec. */
function dataOf<T>(value: unknown): T {
  return (value as Tensor).data as T;
}

/** Marks every slot as interrupted, because another agent has reset the world or the server is closing. */
function cutShort({ step_type: stepType, terminated, truncated }: DynamicObservation): void {
  dataOf<Uint8Array>(stepType).fill(2);
  dataOf<Uint8Array>(terminated).fill(0);
  dataOf<Uint8Array>(truncated).fill(1);
}

/** Sets the rows outside a mask to zeros. */
function clearRows(rows: DynamicStacked, mask: Uint8Array): void {
  for (const value of Object.values(rows)) {
    const { data, shape } = value as Tensor;
    if (data === undefined) {
      clearRows(value as DynamicStacked, mask);
      continue;
    }
    const width = data.length / (shape[0] as number);
    for (let i = 0; i < data.length; i++) {
      if (mask[Math.floor(i / width)] === 0) {
        data[i] = zeroLike(data[i]) as never;
      }
    }
  }
}

function zeroLike(value: unknown): unknown {
  switch (typeof value) {
    case "bigint":
      return 0n;
    case "string":
      return "";
    case "number":
      return 0;
    default:
      return value;
  }
}

function refused(code: "FAILED_PRECONDITION" | "INVALID_ARGUMENT", message: string): DmEnvRpcError {
  return new DmEnvRpcError(code, message, { origin: "client" });
}
