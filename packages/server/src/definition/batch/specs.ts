// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  dtypes,
  elementCount,
  flattenSpecs,
  isVariable,
  type Specs,
  type TensorData,
  type TensorSpec,
  t,
} from "@dm-env-rpc/tensor-codec";

/** Name of the action that resets slots. */
export const resetMask = "reset_mask";

/** Name of the action with the seeds of the slots that are reset. */
export const resetSeeds = "reset_seeds";

/** Name of the group with the last observations of a sequence, in mode `same-step`. */
export const finalName = "final";

/**
 * Name of dm_env's discount, which most environments do not observe because the state implies it.
 */
export const discountName = "discount";

/** `step_type` of a slot, as in dm_env. */
export const stepTypes: { readonly first: 0; readonly mid: 1; readonly last: 2 } = {
  first: 0,
  mid: 1,
  last: 2,
};

/** Observations of every slot in addition to those of its environment. */
export const slotSpecs: Specs = {
  step_type: t.uint8({ min: 0, max: 2 }),
  terminated: t.bool(),
  truncated: t.bool(),
  episode_return: t.float64(),
  episode_length: t.int64(),
  slot_failures: t.uint32(),
};

/** Returns the specs of an environment with a leading dimension for the slots of a batch. */
export function batchedSpecs(specs: Specs, size: number): Specs {
  return Object.fromEntries(
    Object.entries(specs).map(([name, spec]) => [
      name,
      isSpec(spec) ? batchedSpec(spec, size) : batchedSpecs(spec, size),
    ]),
  );
}

/** Returns a spec with a leading dimension; bounds for each element are repeated for each slot. */
function batchedSpec({ dtype, shape, min, max }: TensorSpec, size: number): TensorSpec {
  const repeated = (bound: TensorSpec["min"]): TensorSpec["min"] =>
    typeof bound === "object" ? (repeat(bound, dtype, size) as TensorSpec["min"]) : bound;
  return {
    dtype,
    shape: [size, ...shape],
    ...(min !== undefined && { min: repeated(min) as never }),
    ...(max !== undefined && { max: repeated(max) as never }),
  };
}

function repeat(row: TensorData, dtype: TensorSpec["dtype"], times: number): TensorData {
  const repeated = dtypes[dtype].allocate(row.length * times) as { [index: number]: unknown };
  for (let i = 0; i < row.length * times; i++) {
    repeated[i] = row[i % row.length];
  }
  return repeated as unknown as TensorData;
}

function isSpec(spec: TensorSpec | Specs): spec is TensorSpec {
  return typeof spec["dtype"] === "string";
}

/**
 * Checks, before anything is allocated, that tensors with a leading dimension have a fixed shape
 * and are not too large.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for a variable dimension, RESOURCE_EXHAUSTED for too many elements.
 */
export function checkSizes(
  specs: Specs,
  size: number,
  { maxElements, setting }: { readonly maxElements: number; readonly setting: string },
): void {
  for (const [name, { shape }] of Object.entries(flattenSpecs(specs))) {
    if (isVariable(shape)) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `"${name}" cannot have ${size} rows: expected a fixed shape, received [${shape}], whose length may differ from row to row; join without "${setting}"`,
      );
    }
    const elements = elementCount(shape) * size;
    if (elements > maxElements) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `"${name}" has too many elements in ${size} rows: expected at most ${maxElements} (limit: maxElements), received ${elements}; join with a smaller "${setting}", or have the limit raised`,
      );
    }
  }
}
