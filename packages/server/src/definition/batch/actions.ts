// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  elementCount,
  flattenSpecs,
  type Specs,
  type Tensor,
  type TensorData,
  type TensorSpec,
} from "@dm-env-rpc/tensor-codec";
import type { ActionValues } from "../clock.ts";
import { place, valueAt } from "../nested.ts";
import type { ActionsOf } from "../world.ts";
import { resetMask, resetSeeds } from "./specs.ts";

interface Leaf {
  readonly name: string;
  readonly path: readonly string[];
  readonly spec: TensorSpec;
  /** Number of elements of a slot. */
  readonly width: number;
}

/** An action that a step contains, with its values for all slots. */
interface Given extends Leaf {
  readonly data: TensorData;
}

/** The actions of a step of a batch, slot by slot. */
export interface SlotActions {
  /** Returns the actions of one slot, as its environment receives them. */
  of(slot: number): ActionsOf<Specs>;
  /** 1 for each slot that begins a new sequence; undefined if none does. */
  readonly mask: Uint8Array | undefined;
  /**
   * Returns the seed of a slot that begins a new sequence; undefined if it continues with its
   * random source.
   */
  seedOf(slot: number): bigint | undefined;
  /**
   * True if the step has a `reset_mask` and no actions: it begins sequences, and no other slot
   * acts.
   */
  readonly isResetAlone: boolean;
  /** Returns the elements of each action for all slots, nested as the specs are. */
  arrays(): Record<string, never>;
  /** Values of the actions as received. */
  readonly values: ActionValues;
}

/** Reads the actions of a batch's steps. */
export class ActionReader {
  readonly #leaves: readonly Leaf[];
  readonly #required: readonly string[];

  constructor(specs: Specs) {
    const flat = Object.entries(flattenSpecs(specs));
    this.#leaves = flat.map(([name, spec]) => ({
      name,
      path: name.split("."),
      spec,
      width: elementCount(spec.shape),
    }));
    this.#required = flat.filter(([, spec]) => "required" in spec).map(([name]) => name);
  }

  /**
   * @throws DmEnvRpcError INVALID_ARGUMENT if slots act and a required action is missing, or if the
   * step has seeds without a mask.
   */
  read(values: ActionValues): SlotActions {
    const mask = (values[resetMask] as Tensor<"bool"> | undefined)?.data;
    const seeds = (values[resetSeeds] as Tensor<"uint64"> | undefined)?.data;
    if (seeds !== undefined && mask === undefined) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `"${resetSeeds}" seeds the slots that "${resetMask}" resets: expected both, received only the seeds; send "${resetMask}" as well`,
      );
    }
    const given: Given[] = [];
    for (const leaf of this.#leaves) {
      const tensor = valueAt(values, leaf.path) as Tensor | undefined;
      if (tensor !== undefined) {
        given.push({ ...leaf, data: tensor.data });
      }
    }
    const isResetAlone = mask !== undefined && given.length === 0;
    if (!isResetAlone) {
      this.#checkRequired(given);
    }
    return {
      of: slotReader(given),
      arrays: () => arraysOf(given),
      mask,
      seedOf: (slot) => (mask?.[slot] === 1 ? seeds?.[slot] : undefined),
      isResetAlone,
      values,
    };
  }

  #checkRequired(given: readonly Given[]): void {
    for (const name of this.#required) {
      if (!given.some((action) => action.name === name)) {
        throw new DmEnvRpcError(
          "INVALID_ARGUMENT",
          `the action "${name}" is missing: expected it in every step in which slots act, received a step without it`,
        );
      }
    }
  }
}

function arraysOf(given: readonly Given[]): Record<string, never> {
  const arrays = {};
  for (const { path, data } of given) {
    place(arrays, path, data);
  }
  return arrays;
}

/** Returns a function that collects the actions of one slot in a new record. */
function slotReader(given: readonly Given[]): (slot: number) => ActionsOf<Specs> {
  const [only] = given;
  if (only !== undefined && given.length === 1 && only.path.length === 1) {
    const { name } = only;
    return (slot) => ({ [name]: elementOf(only, slot) }) as ActionsOf<Specs>;
  }
  return (slot) => {
    const values: Record<string, unknown> = {};
    for (let i = 0; i < given.length; i++) {
      const action = given[i] as Given;
      place(values, action.path, elementOf(action, slot));
    }
    return values as ActionsOf<Specs>;
  };
}

/** Returns a scalar, or a tensor that borrows the slot's elements. */
function elementOf({ spec, width, data }: Given, slot: number): unknown {
  const { dtype, shape } = spec;
  if (shape.length === 0) {
    return dtype === "bool" ? data[slot] !== 0 : data[slot];
  }
  const [start, end] = [slot * width, (slot + 1) * width];
  const elements = Array.isArray(data) ? data.slice(start, end) : data.subarray(start, end);
  return { dtype, shape, data: elements };
}
