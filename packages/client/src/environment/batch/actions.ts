// SPDX-License-Identifier: Apache-2.0
import {
  dtypes,
  elementCount,
  flattenSpecs,
  flattenValues,
  nestValues,
  packFor,
  type Specs,
  type TensorData,
  TensorError,
  type TensorSpec,
} from "@dm-env-rpc/tensor-codec";

type Values = Readonly<Record<string, unknown>>;

/** One action of a slot, with its nested position. */
interface Leaf {
  readonly name: string;
  readonly path: readonly string[];
  readonly spec: TensorSpec;
  readonly width: number;
}

/** Converts the actions of slots to tensors with the slots as first dimension, and back. */
export class ActionStacker {
  readonly #leaves: readonly Leaf[];
  readonly #size: number;

  /** @param specs Specs of one slot. */
  constructor(specs: Specs, size: number) {
    this.#size = size;
    this.#leaves = Object.entries(flattenSpecs(specs)).map(([name, spec]) => ({
      name,
      path: name.split("."),
      spec,
      width: elementCount(spec.shape),
    }));
  }

  /**
   * Stacks the actions of all slots.
   *
   * @throws TensorError naming the slot whose action does not fit, or whose names differ from those of slot 0.
   */
  stack(actions: readonly object[]): object {
    const { length } = actions;
    if (length !== this.#size) {
      throw new TensorError({
        reason: "shape",
        expected: `an action for each of ${this.#size} slots`,
        received: `${length}`,
      });
    }
    const stacked: Record<string, unknown> = {};
    for (const leaf of this.#leaves) {
      if (valueAt(actions[0], leaf.path) !== undefined) {
        stacked[leaf.name] = this.#column(actions, leaf);
      }
    }
    this.#checkNames(actions, stacked);
    return nestValues(stacked);
  }

  #column(actions: readonly object[], { name, path, spec, width }: Leaf) {
    const { dtype, shape } = spec;
    const isInteger = dtypes[dtype].kind === "int";
    const data = dtypes[dtype].allocate(width * actions.length) as { [index: number]: unknown };
    for (let slot = 0; slot < actions.length; slot++) {
      const value = valueAt(actions[slot], path);
      // The common case. Reading the value back detects overflow; bounds are checked later, with the whole tensor.
      if (isInteger && shape.length === 0 && typeof value === "number") {
        data[slot] = value;
        if (data[slot] === value) {
          continue;
        }
      }
      const { data: row } = packFor(value, spec, `slot ${slot}: ${name}`);
      for (let i = 0; i < width; i++) {
        data[slot * width + i] = row[row.length === 1 ? 0 : i];
      }
    }
    return { dtype, shape: [actions.length, ...shape], data };
  }

  /** @throws TensorError naming an action that slot 0 does not have. */
  #checkNames(actions: readonly object[], stacked: Values): void {
    for (let slot = 0; slot < actions.length; slot++) {
      const unknown = unknownIn(actions[slot] as Values, stacked, "");
      if (unknown !== undefined) {
        throw new TensorError({
          reason: "name",
          name: unknown,
          expected: `slot ${slot} to have the same actions as slot 0: ${Object.keys(stacked).join(", ") || "none"}`,
          received: `"${unknown}"`,
          remedy: "give every slot the same actions",
        });
      }
    }
  }

  /**
   * Splits an action whose values have the slots as first dimension into an action for each slot.
   *
   * @throws TensorError for a value that does not have the slots as first dimension.
   */
  unstack(action: object): object[] {
    const slots = Array.from({ length: this.#size }, (): Record<string, unknown> => ({}));
    const known = new Map(this.#leaves.map((leaf) => [leaf.name, leaf]));
    for (const name of Object.keys(flattenValues(action as Values))) {
      const leaf = known.get(name);
      if (leaf === undefined) {
        throw new TensorError({
          reason: "name",
          name,
          expected: `one of the actions ${[...known.keys()].join(", ") || "none"}`,
          received: `"${name}"`,
        });
      }
      const { dtype, shape } = leaf.spec;
      const whole = { dtype, shape: [this.#size, ...shape] };
      const { data } = packFor(valueAt(action, leaf.path), whole, name);
      for (const [slot, values] of slots.entries()) {
        values[name] = rowOf(data, dtype, shape, slot);
      }
    }
    return slots.map((values) => nestValues(values));
  }
}

/**
 * Returns the values of one slot from a tensor with a row per slot: a scalar, or a tensor that borrows the elements.
 */
export function rowOf(
  data: TensorData,
  dtype: TensorSpec["dtype"],
  shape: readonly number[],
  slot: number,
): unknown {
  if (shape.length === 0) {
    return dtype === "bool" ? data[slot] !== 0 : data[slot];
  }
  const width = elementCount(shape);
  const [start, end] = [slot * width, (slot + 1) * width];
  return {
    dtype,
    shape,
    data: Array.isArray(data) ? data.slice(start, end) : data.subarray(start, end),
  };
}

function valueAt(values: unknown, path: readonly string[]): unknown {
  let value = values;
  for (let i = 0; i < path.length; i++) {
    value = (value as Values | undefined)?.[path[i] as string];
  }
  return value;
}

/** Returns the full name of the first value that `known` does not have; undefined if it has all of them. */
function unknownIn(values: Values, known: Values, prefix: string): string | undefined {
  for (const key in values) {
    const value = values[key];
    const name = prefix + key;
    if (value === undefined || Object.hasOwn(known, name)) {
      continue;
    }
    const isRecord = typeof value === "object" && value !== null && !("dtype" in value);
    const unknown =
      isRecord && !ArrayBuffer.isView(value) && !Array.isArray(value)
        ? unknownIn(value as Values, known, `${name}.`)
        : name;
    if (unknown !== undefined) {
      return unknown;
    }
  }
  return undefined;
}
