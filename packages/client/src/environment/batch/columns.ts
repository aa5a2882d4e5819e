// SPDX-License-Identifier: Apache-2.0
import type { Tensor } from "@dm-env-rpc/tensor-codec";
import type { TimeStep } from "../time-step.ts";
import type { SequenceInfo, Stacked, VectorBatch } from "../vector.ts";

/** The arrays of a batch, with one element for each row. */
export type Columns = Pick<
  VectorBatch,
  "reward" | "discount" | "terminated" | "truncated" | "first" | "valid"
>;

/** Memory for the columns of a batch that the server does not send. */
export class RowArrays {
  readonly reward: Float64Array;
  readonly discount: Float64Array;
  readonly first: Uint8Array;
  readonly valid: Uint8Array;

  constructor(rows: number) {
    this.reward = new Float64Array(rows);
    this.discount = new Float64Array(rows);
    this.first = new Uint8Array(rows);
    this.valid = new Uint8Array(rows);
  }
}

/** Allocates the columns of a batch. */
export function allocateColumns(rows: number): Columns {
  const { reward, discount, first, valid } = new RowArrays(rows);
  const [terminated, truncated] = [new Uint8Array(rows), new Uint8Array(rows)];
  return { reward, discount, terminated, truncated, first, valid };
}

/** A batch whose columns are arrays; subclasses create its lists of values per row when they are read. */
export abstract class ColumnsBatch<Observation, Stack = Stacked<Observation>>
  implements VectorBatch<Observation, Stack>
{
  readonly ids: readonly number[];
  readonly observation: Stack;
  readonly reward: Float64Array;
  readonly discount: Float64Array;
  readonly terminated: Uint8Array;
  readonly truncated: Uint8Array;
  readonly first: Uint8Array;
  readonly valid: Uint8Array;

  constructor(ids: readonly number[], observation: Stack, columns: Columns) {
    this.ids = ids;
    this.observation = observation;
    this.reward = columns.reward;
    this.discount = columns.discount;
    this.terminated = columns.terminated;
    this.truncated = columns.truncated;
    this.first = columns.first;
    this.valid = columns.valid;
  }

  abstract get timeSteps(): readonly (TimeStep<Observation> | null)[];
  abstract get finalObservation(): readonly (Observation | null)[];
  abstract get finalInfo(): readonly (SequenceInfo | null)[];
  abstract get failures(): readonly (Error | null)[];
  abstract get refusals(): readonly (Error | null)[];
}

/** Returns true for a tensor, false for a record of tensors. */
export function isTensor(value: unknown): value is Tensor {
  const isRecord = typeof value === "object" && value !== null;
  return isRecord && "dtype" in value && typeof value.dtype === "string";
}
