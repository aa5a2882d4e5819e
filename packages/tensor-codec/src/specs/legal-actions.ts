// SPDX-License-Identifier: Apache-2.0
import { dtypes } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { shapeText, withArticle } from "../errors/text.ts";
import type { TensorSpec } from "./spec.ts";

/**
 * Name of the observation that masks the legal values of discrete actions: a bool array if there is one discrete
 * action, or a record of bool arrays, one per discrete action.
 */
export const legalActionsName = "legal_actions";

/** The spec of a mask over the values of a discrete action. */
export type LegalActionsSpec = TensorSpec<"bool", readonly [number]>;

/** Returns true for a discrete action: a scalar integer with both bounds. */
export function isDiscrete({ dtype, shape, min, max }: TensorSpec): boolean {
  const { kind } = dtypes[dtype];
  const isInteger = kind === "int" || kind === "bigint";
  return isInteger && shape.length === 0 && min !== undefined && max !== undefined;
}

/**
 * Returns the spec of the observation that masks the legal values of a discrete action: bool, one element for
 * each value from `min` to `max`. Its name is {@link legalActionsName}.
 *
 * @throws TensorError `spec` if the action is not discrete.
 * @example
 * const move = t.discrete(9);
 * const actions = { move };
 * const observations = { legal_actions: legalActions(move) };
 */
export function legalActions(action: TensorSpec): LegalActionsSpec {
  if (isDiscrete(action)) {
    const { min, max } = action as { readonly min: number | bigint; readonly max: number | bigint };
    return { dtype: "bool", shape: [Number(BigInt(max) - BigInt(min)) + 1] };
  }
  throw new TensorError({
    reason: "spec",
    expected: "a discrete action, a scalar integer with min and max",
    received: `${withArticle(action.dtype)} of shape ${shapeText(action.shape)}`,
    remedy: "give it bounds, or describe what is legal in an observation of another name",
  });
}
