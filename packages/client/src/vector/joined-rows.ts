// SPDX-License-Identifier: Apache-2.0
import { dtypes, type Tensor, type TensorData, TensorError } from "@dm-env-rpc/tensor-codec";
import {
  allocateColumns,
  type Columns,
  ColumnsBatch,
  isTensor,
} from "../environment/batch/columns.ts";
import type { TimeStep } from "../environment/time-step.ts";
import type { DynamicStacked, SequenceInfo, Stacked, VectorBatch } from "../environment/vector.ts";

interface Elements {
  [index: number]: unknown;
  readonly length: number;
}

/** The arrays of a batch of all slots. */
interface AllSlots {
  readonly observation: DynamicStacked;
  readonly columns: Columns;
}

/** The columns that are copied from each part to the batch of all slots. */
const columnNames = ["reward", "discount", "terminated", "truncated", "first", "valid"] as const;

/** Combines batches that cover some slots each into one batch of all slots. */
export class JoinedRows<Observation> {
  readonly #every: readonly (readonly number[])[];
  readonly #ids: readonly number[];
  readonly #reuse: boolean;
  #all: AllSlots | undefined;

  /**
   * @param every The slots of each part.
   * @param reuse True if each batch overwrites the arrays of the previous batch.
   */
  constructor(every: readonly (readonly number[])[], reuse: boolean) {
    const size = every.reduce((sum, { length }) => sum + length, 0);
    this.#every = every;
    this.#ids = Array.from({ length: size }, (_, slot) => slot);
    this.#reuse = reuse;
  }

  /** @throws TensorError `spec` if the parts have different observations. */
  joined(parts: readonly VectorBatch<Observation>[]): VectorBatch<Observation> {
    const all = this.#all ?? this.#allocate(parts[0] as VectorBatch<Observation>);
    this.#all = this.#reuse ? all : undefined;
    for (const [index, part] of parts.entries()) {
      const slots = this.#every[index] as readonly number[];
      scatterStack(all.observation, part.observation as DynamicStacked, slots);
      for (const name of columnNames) {
        scatter(all.columns[name] as Elements, part[name] as Elements, slots, 1);
      }
    }
    return new JoinedBatch(all, parts, this.#every, this.#ids);
  }

  #allocate({ observation }: VectorBatch<Observation>): AllSlots {
    const size = this.#ids.length;
    return {
      observation: allocateLike(observation as DynamicStacked, size),
      columns: allocateColumns(size),
    };
  }
}

/** A batch of all slots, combined from the batches of its parts. */
class JoinedBatch<Observation> extends ColumnsBatch<Observation> {
  readonly #parts: readonly VectorBatch<Observation>[];
  readonly #every: readonly (readonly number[])[];

  constructor(
    { observation, columns }: AllSlots,
    parts: readonly VectorBatch<Observation>[],
    every: readonly (readonly number[])[],
    ids: readonly number[],
  ) {
    // The stack has the names and shapes of the parts' observations.
    super(ids, observation as Stacked<Observation>, columns);
    this.#parts = parts;
    this.#every = every;
  }

  override get timeSteps(): readonly (TimeStep<Observation> | null)[] {
    return this.#listed((part) => part.timeSteps);
  }

  override get finalObservation(): readonly (Observation | null)[] {
    return this.#listed((part) => part.finalObservation);
  }

  override get finalInfo(): readonly (SequenceInfo | null)[] {
    return this.#listed((part) => part.finalInfo);
  }

  override get failures(): readonly (Error | null)[] {
    return this.#listed((part) => part.failures);
  }

  override get refusals(): readonly (Error | null)[] {
    return this.#listed((part) => part.refusals);
  }

  #listed<T>(of: (part: VectorBatch<Observation>) => readonly T[]): readonly T[] {
    const all = new Array<T>(this.ids.length);
    for (const [index, part] of this.#parts.entries()) {
      scatter(all as Elements, of(part), this.#every[index] as readonly number[], 1);
    }
    return all;
  }
}

/** Copies the rows of a part to the rows of its slots. */
function scatter(
  target: Elements,
  source: ArrayLike<unknown>,
  slots: readonly number[],
  width: number,
): void {
  for (let row = 0; row < slots.length; row++) {
    const to = (slots[row] as number) * width;
    for (let i = 0; i < width; i++) {
      target[to + i] = source[row * width + i];
    }
  }
}

function scatterStack(
  target: DynamicStacked,
  source: DynamicStacked,
  slots: readonly number[],
): void {
  for (const name of new Set([...Object.keys(target), ...Object.keys(source)])) {
    const [to, from] = [target[name], source[name]];
    if (to !== undefined && from !== undefined && !isTensor(to) && !isTensor(from)) {
      scatterStack(to, from, slots);
      continue;
    }
    if (!isTensor(to) || !isTensor(from) || to.dtype !== from.dtype || !isSameRow(to, from)) {
      throw new TensorError({
        reason: "spec",
        name,
        expected: `slot ${slots[0]} to have the spec of the first slot: ${described(to)}`,
        received: described(from),
        remedy: "create all slots in worlds with the same specs, or request the same observations",
      });
    }
    const width = from.data.length / slots.length;
    if (ArrayBuffer.isView(to.data) && width > 16) {
      const [rows, elements] = [to.data as Uint8Array, from.data as Uint8Array];
      for (let row = 0; row < slots.length; row++) {
        rows.set(elements.subarray(row * width, (row + 1) * width), (slots[row] as number) * width);
      }
    } else {
      scatter(to.data as Elements, from.data, slots, width);
    }
  }
}

const isSameRow = (one: Tensor, other: Tensor): boolean =>
  one.shape.slice(1).join() === other.shape.slice(1).join();

function described(value: Tensor | DynamicStacked | undefined): string {
  if (value === undefined) {
    return "no observation of that name";
  }
  return isTensor(value) ? `${value.dtype} [${value.shape.slice(1)}]` : "a record";
}

function allocateLike(stack: DynamicStacked, size: number): DynamicStacked {
  return Object.fromEntries(
    Object.entries(stack).map(([name, value]) => {
      if (!isTensor(value)) {
        return [name, allocateLike(value, size)];
      }
      const { dtype, shape, data } = value;
      const width = data.length / (shape[0] as number);
      const rows = dtypes[dtype].allocate(size * width);
      return [name, { dtype, shape: [size, ...shape.slice(1)], data: rows } as Tensor];
    }),
  );
}

/**
 * Returns the rows of some slots, from values with one row per slot. A scalar applies to every slot.
 *
 * @throws TensorError `shape` for elements that cannot be divided among the slots.
 */
export function rowsOf(value: unknown, slots: readonly number[], size: number): unknown {
  if (typeof value !== "object" || value === null) {
    return value;
  }
  if (ArrayBuffer.isView(value) || Array.isArray(value)) {
    return elementsOf(value as unknown as TensorData, slots, size);
  }
  if (isTensor(value)) {
    const { dtype, shape, data } = value;
    const own = [slots.length, ...shape.slice(1)];
    // A single element applies to every row.
    return { dtype, shape: own, data: data.length === 1 ? data : elementsOf(data, slots, size) };
  }
  return Object.fromEntries(
    Object.entries(value).map(([name, inner]) => [name, rowsOf(inner, slots, size)]),
  );
}

function elementsOf(data: TensorData, slots: readonly number[], size: number): unknown {
  const width = data.length / size;
  if (!Number.isInteger(width)) {
    throw new TensorError({
      reason: "shape",
      expected: `elements for each of ${size} slots`,
      received: `${data.length} elements`,
    });
  }
  if (Array.isArray(data)) {
    const rows: readonly unknown[] = data;
    return slots.flatMap((slot) => rows.slice(slot * width, (slot + 1) * width));
  }
  const all = data as Uint8Array;
  const own = all.slice(0, slots.length * width);
  for (let row = 0; row < slots.length; row++) {
    const from = (slots[row] as number) * width;
    for (let i = 0; i < width; i++) {
      own[row * width + i] = all[from + i] as number;
    }
  }
  return own;
}
