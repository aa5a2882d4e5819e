// SPDX-License-Identifier: Apache-2.0
import { packFor, type Specs, type Tensor, t } from "@dm-env-rpc/tensor-codec";
import type { SequenceState } from "../agent.ts";
import { place, valueAt } from "../nested.ts";
import type { ObservationChecks } from "../observation-checks.ts";
import { type Column, columnsOf, observersOf } from "./columns.ts";
import { discountName, finalName, stepTypes } from "./specs.ts";

const { first, mid, last } = stepTypes;

const rewardSpec = t.float32();

/** Options of the rows of a batch. */
export interface RowsOptions {
  readonly size: number;
  /** Observations of the environment, without its reward. */
  readonly specs: Specs;
  readonly checks: ObservationChecks;
  /** True if the last observations of sequences are stored, as mode `same-step` requires. */
  readonly keepsFinal: boolean;
  readonly observesDiscount: boolean;
}

/**
 * Observations of a batch: one array per name with a row for each slot, overwritten by each step
 * and sent without a copy.
 */
export class Rows {
  readonly #size: number;
  readonly #columns: readonly Column[];
  readonly reward: Float32Array;
  readonly #stepType: Uint8Array;
  readonly #terminated: Uint8Array;
  readonly #truncated: Uint8Array;
  /** Number of failures of each slot. */
  readonly #failures: Uint32Array;
  readonly #finals: readonly Column[];
  readonly #returns: Float64Array;
  readonly #lengths: Lengths;
  /** Accepted values of a slot's observation, before any of them is written. */
  readonly #accepted: unknown[];
  readonly #observesDiscount: boolean;

  constructor({ size, specs, checks, keepsFinal, observesDiscount }: RowsOptions) {
    this.#size = size;
    this.#columns = columnsOf(specs, size, checks);
    this.#finals = keepsFinal ? columnsOf(specs, size, "off") : [];
    this.reward = new Float32Array(size);
    this.#stepType = new Uint8Array(size);
    this.#terminated = new Uint8Array(size);
    this.#truncated = new Uint8Array(size);
    this.#failures = new Uint32Array(size);
    this.#returns = new Float64Array(size);
    this.#lengths = new Lengths(size);
    this.#accepted = new Array(this.#columns.length);
    this.#observesDiscount = observesDiscount;
  }

  /** The arrays of the environment's observations, nested as the specs are. */
  get arrays(): Record<string, never> {
    const arrays = {};
    for (const { path, tensor } of this.#columns) {
      place(arrays, path, tensor.data);
    }
    return arrays;
  }

  /** The functions of a world's `observe`. */
  observers(): Record<string, unknown> {
    const whole = (tensor: Omit<Tensor, "shape">) => {
      const shaped = { ...tensor, shape: [this.#size] };
      return () => shaped;
    };
    const final = observersOf(this.#finals);
    return {
      ...observersOf(this.#columns),
      ...(this.#finals.length > 0 && { [finalName]: final }),
      reward: whole({ dtype: "float32", data: this.reward }),
      step_type: whole({ dtype: "uint8", data: this.#stepType }),
      terminated: whole({ dtype: "bool", data: this.#terminated }),
      truncated: whole({ dtype: "bool", data: this.#truncated }),
      episode_return: whole({ dtype: "float64", data: this.#returns }),
      episode_length: whole({ dtype: "int64", data: this.#lengths.data }),
      slot_failures: whole({ dtype: "uint32", data: this.#failures }),
      ...(this.#observesDiscount && {
        [discountName]: () => Float32Array.from(this.#terminated, (ended) => 1 - ended),
      }),
    };
  }

  /**
   * Writes an environment's observation of a slot.
   *
   * @throws TensorError if an observation does not fit its spec; then nothing is written.
   */
  observe(slot: number, observation: unknown): void {
    const columns = this.#columns;
    const accepted = this.#accepted;
    for (let i = 0; i < columns.length; i++) {
      const column = columns[i] as Column;
      accepted[i] = column.accept(valueAt(observation, column.path));
    }
    for (let i = 0; i < columns.length; i++) {
      (columns[i] as Column).write(slot, accepted[i]);
    }
  }

  /** Records that a slot begins a sequence with its current observation. */
  begin(slot: number): void {
    this.#put(slot, first, 0, 0);
    this.#returns[slot] = 0;
    this.#lengths.clear(slot);
  }

  /** Records that a slot is unchanged. */
  hold(slot: number): void {
    this.reward[slot] = 0;
  }

  /** Records a step of a slot. */
  step(slot: number, reward: number, state: SequenceState): void {
    if (this.#stepType[slot] === last) {
      // The sequence began in the step that ended the previous sequence.
      this.#returns[slot] = 0;
      this.#lengths.clear(slot);
    }
    const isTerminated = state === "terminated";
    const hasEnded = state !== "running";
    this.#put(slot, hasEnded ? last : mid, isTerminated ? 1 : 0, hasEnded && !isTerminated ? 1 : 0);
    this.reward[slot] = reward;
    (this.#returns[slot] as number) += reward;
    this.#lengths.add(slot);
  }

  /** Records steps of slots whose rewards and ends (1 for an end) the author has written. */
  stepMany(slots: Int32Array, terminated: Uint8Array, interrupted: Uint8Array): void {
    const reward = this.reward;
    const returns = this.#returns;
    const stepType = this.#stepType;
    const shownTerminated = this.#terminated;
    const truncated = this.#truncated;
    const lengths = this.#lengths;
    for (let i = 0; i < slots.length; i++) {
      const slot = slots[i] as number;
      const isTerminated = terminated[slot] === 1;
      const isInterrupted = !isTerminated && interrupted[slot] === 1;
      if (stepType[slot] === last) {
        // The sequence began in the step that ended the previous sequence.
        returns[slot] = 0;
        lengths.clear(slot);
      }
      stepType[slot] = isTerminated || isInterrupted ? last : mid;
      shownTerminated[slot] = isTerminated ? 1 : 0;
      truncated[slot] = isInterrupted ? 1 : 0;
      (returns[slot] as number) += reward[slot] as number;
      lengths.add(slot);
    }
  }

  /**
   * Records that a slot could not begin a sequence: the sequence is cut short before it has begun.
   */
  miss(slot: number): void {
    this.begin(slot);
    this.#put(slot, last, 0, 1);
  }

  /** Records that the environment of a slot has failed. */
  fail(slot: number): void {
    (this.#failures[slot] as number) += 1;
  }

  #put(slot: number, stepType: number, terminated: number, truncated: number): void {
    this.reward[slot] = 0;
    this.#stepType[slot] = stepType;
    this.#terminated[slot] = terminated;
    this.#truncated[slot] = truncated;
  }

  /** Stores the current observation of a slot as the last of its sequence. */
  keepFinal(slot: number): void {
    for (let i = 0; i < this.#finals.length; i++) {
      (this.#finals[i] as Column).copyRow(this.#columns[i] as Column, slot);
    }
  }
}

/** Index of the 32-bit half with the low bits of a 64-bit integer: 0 on a little-endian machine. */
const lowHalf = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1 ? 0 : 1;

/** Counters in 64-bit integers that are incremented without allocating bigints. */
class Lengths {
  readonly data: BigInt64Array;
  readonly #halves: Uint32Array;

  constructor(size: number) {
    this.data = new BigInt64Array(size);
    this.#halves = new Uint32Array(this.data.buffer);
  }

  clear(slot: number): void {
    this.#halves[2 * slot] = 0;
    this.#halves[2 * slot + 1] = 0;
  }

  add(slot: number): void {
    const low = 2 * slot + lowHalf;
    const sum = (this.#halves[low] as number) + 1;
    this.#halves[low] = sum;
    if (sum > 0xffffffff) {
      (this.#halves[2 * slot + 1 - lowHalf] as number) += 1;
    }
  }
}

/**
 * Returns the reward of an environment's step.
 *
 * @throws TensorError if it is not a number that a float32 can represent.
 */
export function rewardOf(reward: unknown): number {
  if (reward === undefined) {
    return 0;
  }
  if (typeof reward === "number" && Math.abs(reward) < 3.4e38) {
    return reward;
  }
  return packFor(reward, rewardSpec, "reward").data[0] as number;
}
