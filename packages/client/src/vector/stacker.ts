// SPDX-License-Identifier: Apache-2.0
import {
  type DmEnvSpec,
  type DmEnvSpecs,
  dtypes,
  elementCount,
  isVariable,
  type Tensor,
  type TensorData,
  TensorError,
} from "@dm-env-rpc/tensor-codec";
import type { DynamicObservation } from "../environment/definition.ts";
import type { DynamicStacked } from "../environment/vector.ts";

/** One observation and its position in the nested record. */
interface Leaf {
  readonly path: readonly string[];
  readonly spec: DmEnvSpec;
  /** Number of elements in a row. */
  readonly size: number;
}

/** Stacked observations, and their arrays in the order of the leaves. */
export interface Stack {
  readonly observation: DynamicStacked;
  readonly arrays: readonly TensorData[];
}

/** Stacks the observations of several slots into one tensor per name. */
export class Stacker {
  readonly #leaves: readonly Leaf[];

  /** @throws TensorError `shape` for an observation of variable length, which cannot be stacked. */
  constructor(specs: DmEnvSpecs) {
    this.#leaves = leavesOf(specs, []);
    for (const { spec } of this.#leaves) {
      if (!isVariable(spec.shape)) {
        continue;
      }
      throw new TensorError({
        reason: "shape",
        name: spec.name,
        expected: "an observation of fixed shape, which can be stacked",
        received: `shape [${spec.shape}]`,
        remedy: "do not request it, or set stack: false",
      });
    }
  }

  /** Allocates rows of zeros. */
  allocate(rows: number): Stack {
    const observation: Record<string, unknown> = {};
    const arrays = this.#leaves.map(({ path, spec, size }) => {
      const { dtype, shape } = spec;
      const data = dtypes[dtype].allocate(rows * size);
      let record = observation;
      const last = path.length - 1;
      for (let depth = 0; depth < last; depth++) {
        const key = path[depth] as string;
        record[key] ??= {};
        record = record[key] as Record<string, unknown>;
      }
      record[path[last] as string] = { dtype, shape: [rows, ...shape], data };
      return data;
    });
    return { observation: observation as DynamicStacked, arrays };
  }

  /** Writes an observation into a row. */
  write(stack: Stack, row: number, observation: DynamicObservation): void {
    for (let i = 0; i < this.#leaves.length; i++) {
      const { path, spec, size } = this.#leaves[i] as Leaf;
      let value: unknown = observation;
      for (let depth = 0; depth < path.length; depth++) {
        value = (value as Record<string, unknown>)[path[depth] as string];
      }
      const data = stack.arrays[i] as TensorData;
      if (spec.shape.length === 0) {
        data[row] = (typeof value === "boolean" ? +value : value) as never;
      } else {
        put(data, (value as Tensor).data, row * size);
      }
    }
  }

  /** Sets a row to zeros. */
  clear(stack: Stack, row: number): void {
    for (let i = 0; i < this.#leaves.length; i++) {
      const { spec, size } = this.#leaves[i] as Leaf;
      put(stack.arrays[i] as TensorData, dtypes[spec.dtype].allocate(size), row * size);
    }
  }
}

function put(target: TensorData, source: TensorData, at: number): void {
  if (Array.isArray(target)) {
    for (let i = 0; i < source.length; i++) {
      target[at + i] = source[i] as never;
    }
  } else {
    target.set(source as never, at);
  }
}

function leavesOf(specs: DmEnvSpecs, above: readonly string[]): Leaf[] {
  return Object.entries(specs).flatMap(([key, spec]): Leaf[] => {
    const path = [...above, key];
    return isLeaf(spec) ? [{ path, spec, size: elementCount(spec.shape) }] : leavesOf(spec, path);
  });
}

function isLeaf(spec: DmEnvSpec | DmEnvSpecs): spec is DmEnvSpec {
  return typeof spec["kind"] === "string";
}
