// SPDX-License-Identifier: Apache-2.0
import type { DynamicAction, Environment, SignalContext } from "@dm-env-rpc/client";
import { type FlatSpecs, flattenSpecs, sample, type Tensor } from "@dm-env-rpc/tensor-codec";
import type { Random } from "./random.ts";

/** Chooses an action. */
export type Policy = () => DynamicAction;

/** Samples every action of an environment; specs may change with a reset, which nobody does here. */
export function randomPolicy(environment: Environment, random: Random): Policy {
  const specs: FlatSpecs = flattenSpecs(environment.specs.actions);
  const entries = Object.entries(specs);
  return () => {
    const action: Record<string, Tensor> = {};
    for (const [name, spec] of entries) action[name] = sample(spec, random);
    return action;
  };
}

/** A server's reward may have any dtype and shape: a number is itself, of a tensor the elements add up. */
export function rewardOf({ value }: SignalContext): number {
  if (value === undefined || typeof value === "string") return 0;
  if (typeof value !== "object") return Number(value);
  if (!("data" in value) || value.dtype === "string" || value.dtype === "proto") return 0;
  let sum = 0;
  for (const element of value.data) sum += Number(element);
  return sum;
}
