// SPDX-License-Identifier: Apache-2.0
import { allocateColumns, type Columns } from "../environment/batch/columns.ts";
import type { DynamicObservation } from "../environment/definition.ts";
import type { TimeStep } from "../environment/time-step.ts";
import type { SequenceInfo, Stacked, VectorBatch } from "../environment/vector.ts";
import type { Arrival } from "./slot.ts";
import type { Stack, Stacker } from "./stacker.ts";

/** Memory for a batch. */
interface Room {
  readonly stack: Stack;
  readonly columns: Columns;
}

/** Combines the arrivals of slots into batches, in fresh or reused arrays. */
export class Batcher<Observation> {
  readonly #stacker: Stacker;
  /** Reusable arrays by their number of rows; undefined if each batch has fresh ones. */
  readonly #rooms: Map<number, Room> | undefined;

  constructor(stacker: Stacker, reuse: boolean) {
    this.#stacker = stacker;
    this.#rooms = reuse ? new Map() : undefined;
  }

  /** Creates a batch with a row for each arrival. */
  batch(arrivals: readonly Arrival<Observation>[]): VectorBatch<Observation> {
    const rows = arrivals.length;
    const { stack, columns } = this.#room(rows);
    const ids: number[] = [];
    const finalObservation: (Observation | null)[] = [];
    const finalInfo: (SequenceInfo | null)[] = [];
    const failures: (Error | null)[] = [];
    const refusals: (Error | null)[] = [];
    const timeSteps: (TimeStep<Observation> | null)[] = [];
    for (let row = 0; row < rows; row++) {
      const arrival = arrivals[row] as Arrival<Observation>;
      const { slot, step, final, info, failure } = arrival;
      ids.push(slot);
      finalObservation.push(final === undefined ? null : final.observation);
      finalInfo.push(info);
      failures.push(failure);
      refusals.push(arrival.refusal);
      timeSteps.push(step ?? null);
      if (step === undefined) {
        this.#stacker.clear(stack, row);
      } else {
        this.#stacker.write(stack, row, step.observation as DynamicObservation);
      }
      columns.valid[row] = step === undefined ? 0 : 1;
      columns.first[row] = step?.stepType === "first" ? 1 : 0;
      // In mode `same-step`, `step` is already the first step of the next sequence; the action's
      // outcome is in `final`.
      this.#writeOutcome(columns, row, final ?? step, failure !== null);
    }
    return {
      ids,
      // The stack has the names and shapes of the observations, as `Stacked` requires.
      observation: stack.observation as Stacked<Observation>,
      timeSteps,
      reward: columns.reward,
      discount: columns.discount,
      terminated: columns.terminated,
      truncated: columns.truncated,
      first: columns.first,
      valid: columns.valid,
      finalObservation,
      finalInfo,
      failures,
      refusals,
    };
  }

  #writeOutcome(
    columns: Columns,
    row: number,
    outcome: TimeStep<Observation> | undefined,
    failed: boolean,
  ): void {
    const ended = outcome?.stepType === "last";
    const terminated = ended && outcome.state === "terminated";
    columns.reward[row] = outcome?.reward ?? 0;
    columns.discount[row] = outcome?.discount ?? 1;
    columns.terminated[row] = terminated ? 1 : 0;
    columns.truncated[row] = !terminated && (ended || failed) ? 1 : 0;
  }

  #room(rows: number): Room {
    const reusable = this.#rooms?.get(rows);
    if (reusable !== undefined) {
      return reusable;
    }
    const room = { stack: this.#stacker.allocate(rows), columns: allocateColumns(rows) };
    this.#rooms?.set(rows, room);
    return room;
  }
}
