// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { DynamicObservation } from "../definition.ts";
import { type TimeStep, timeStep } from "../time-step.ts";
import type { DynamicStacked, SequenceInfo } from "../vector.ts";
import { rowOf } from "./actions.ts";
import { ColumnsBatch, isTensor, type RowArrays } from "./columns.ts";

/** The response to a step of a batch. */
export interface Received {
  readonly observation: DynamicStacked;
  readonly final: DynamicStacked | undefined;
  readonly reward: ArrayLike<number>;
  readonly discount: ArrayLike<number> | undefined;
  readonly stepType: Uint8Array;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;
  readonly lengths: BigInt64Array;
  readonly returns: Float64Array;
  /** 1 for each slot that failed in this step; undefined if no slot failed. */
  readonly failed: Uint8Array | undefined;
  /** 1 for each slot that the step addressed; undefined if it addressed every slot. */
  readonly mask: Uint8Array | undefined;
}

const [firstStep, lastStep] = [0, 2];

/** A batch that borrows the arrays of its response. Lists of values per slot are created on first access. */
export class ReceivedBatch extends ColumnsBatch<DynamicObservation, DynamicStacked> {
  readonly #received: Received;
  #timeSteps: readonly (TimeStep<DynamicObservation> | null)[] | undefined;
  #finalObservation: readonly (DynamicObservation | null)[] | undefined;
  #finalInfo: readonly (SequenceInfo | null)[] | undefined;
  #failures: readonly (Error | null)[] | undefined;

  /** @param arrays Memory for the columns that the server does not send. */
  constructor(received: Received, ids: readonly number[], arrays: RowArrays) {
    const { observation, terminated, truncated, mask } = received;
    const { reward, discount, first } = arrays;
    const valid = mask ?? arrays.valid.fill(1);
    super(ids, observation, { reward, discount, terminated, truncated, first, valid });
    this.#received = received;
    this.#fill();
    if (mask !== undefined) {
      this.#leaveOut(mask);
    }
  }

  #fill(): void {
    const { reward, discount, terminated, stepType } = this.#received;
    // In mode `same-step` a slot whose sequence ended has already begun the next one.
    const alsoFirst = this.#received.final === undefined ? firstStep : lastStep;
    const { discount: discounts, first: firsts } = this;
    this.reward.set(reward);
    for (let slot = 0; slot < stepType.length; slot++) {
      const type = stepType[slot];
      firsts[slot] = type === firstStep || type === alsoFirst ? 1 : 0;
      discounts[slot] = type === firstStep ? 1 : 1 - (terminated[slot] as number);
    }
    if (discount === undefined) {
      return;
    }
    for (let slot = 0; slot < stepType.length; slot++) {
      discounts[slot] = stepType[slot] === firstStep ? 1 : (discount[slot] as number);
    }
  }

  /** Clears the slots that the step did not address. */
  #leaveOut(mask: Uint8Array): void {
    for (let slot = 0; slot < mask.length; slot++) {
      if (mask[slot] === 1) {
        continue;
      }
      this.reward[slot] = 0;
      this.discount[slot] = 1;
      this.terminated[slot] = 0;
      this.truncated[slot] = 0;
      this.first[slot] = 0;
    }
  }

  override get timeSteps(): readonly (TimeStep<DynamicObservation> | null)[] {
    this.#timeSteps ??= this.ids.map((_, slot) => this.#timeStep(slot));
    return this.#timeSteps;
  }

  #timeStep(slot: number): TimeStep<DynamicObservation> | null {
    if (this.valid[slot] !== 1) {
      return null;
    }
    const observation = rowsOf(this.observation, slot);
    if (this.first[slot] === 1) {
      return timeStep("first", "running", null, null, observation);
    }
    const [reward, discount] = [this.reward[slot] as number, this.discount[slot] as number];
    return this.#hasEnded(slot)
      ? timeStep("last", this.#state(slot), reward, discount, observation)
      : timeStep("mid", "running", reward, discount, observation);
  }

  #state(slot: number): SequenceInfo["state"] {
    return this.terminated[slot] === 1 ? "terminated" : "interrupted";
  }

  #hasEnded(slot: number): boolean {
    return this.valid[slot] === 1 && this.#received.stepType[slot] === lastStep;
  }

  override get finalObservation(): readonly (DynamicObservation | null)[] {
    const { final } = this.#received;
    this.#finalObservation ??= this.ids.map((_, slot) =>
      final !== undefined && this.#hasEnded(slot) ? rowsOf(final, slot) : null,
    );
    return this.#finalObservation;
  }

  override get finalInfo(): readonly (SequenceInfo | null)[] {
    const { lengths, returns } = this.#received;
    this.#finalInfo ??= this.ids.map((_, slot) =>
      this.#hasEnded(slot)
        ? {
            state: this.#state(slot),
            steps: Number(lengths[slot]),
            return: returns[slot] as number,
          }
        : null,
    );
    return this.#finalInfo;
  }

  override get failures(): readonly (Error | null)[] {
    const { failed } = this.#received;
    this.#failures ??= this.ids.map((_, slot) => (failed?.[slot] === 1 ? slotFailure(slot) : null));
    return this.#failures;
  }

  override get refusals(): readonly null[] {
    return this.ids.map(() => null);
  }
}

/** Returns a copy of one slot's values. */
function rowsOf(rows: DynamicStacked, slot: number): DynamicObservation {
  return Object.fromEntries(
    Object.entries(rows).map(([name, value]) => {
      if (!isTensor(value)) {
        return [name, rowsOf(value, slot)];
      }
      const { dtype, shape, data } = value;
      const row = rowOf(data, dtype, shape.slice(1), slot);
      return [name, isTensor(row) ? { ...row, data: row.data.slice() } : row];
    }),
  ) as DynamicObservation;
}

function slotFailure(slot: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "INTERNAL",
    `the environment of slot ${slot} failed and is being recreated; see the server's events for the reason`,
  );
}
