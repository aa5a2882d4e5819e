// SPDX-License-Identifier: Apache-2.0
import type { Scalar, Tensor } from "@dm-env-rpc/tensor-codec";
import type { AgentState } from "./time-step.ts";

/** Returns the reward of a step after the first: the observation `reward`, or 0 without one (behaviour 52). */
export function rewardOf(observed: Scalar | Tensor | undefined): number {
  return observed === undefined ? 0 : toNumber(observed);
}

/**
 * Returns the discount of a step after the first: the observation `discount`, or, without one, 0 at a
 * natural end and 1 at other steps (behaviour 48).
 */
export function discountOf(observed: Scalar | Tensor | undefined, state: AgentState): number {
  if (observed !== undefined) {
    return toNumber(observed);
  }
  return state === "terminated" ? 0 : 1;
}

function toNumber(value: Scalar | Tensor): number {
  if (typeof value === "number") {
    return value;
  }
  return Number(typeof value === "object" && "data" in value ? value.data[0] : value);
}
