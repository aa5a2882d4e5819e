// SPDX-License-Identifier: Apache-2.0
import type {
  DynamicAction,
  DynamicObservation,
  Environment,
  SignalContext,
  TimeStep,
} from "@dm-env-rpc/client";
import {
  type FlatSpecs,
  flattenSpecs,
  isDiscrete,
  legalActions,
  legalActionsName,
  sample,
  type Tensor,
  type TensorSpec,
} from "@dm-env-rpc/tensor-codec";
import type { Random } from "./random.ts";

/** Chooses the action after a time step. */
export type Policy = (step: TimeStep<DynamicObservation>) => DynamicAction;

/**
 * Makes a policy that samples every action of an environment. For a discrete action it samples the values that the
 * observation `legal_actions` allows, and omits the action if none is legal. The specs are read once: these agents
 * never change them with a reset.
 */
export function randomPolicy(environment: Environment, random: Random): Policy {
  const specs: FlatSpecs = flattenSpecs(environment.specs.actions);
  const entries = Object.entries(specs);
  const isOnly = entries.filter(([, spec]) => isDiscrete(spec)).length === 1;
  return ({ observation }) => {
    const masks = observation[legalActionsName];
    const action: Record<string, Tensor> = {};
    for (const [name, spec] of entries) {
      const legal = masks === undefined ? undefined : maskOf(name, spec, masks, isOnly);
      if (legal?.data.every((isLegal) => isLegal === 0)) {
        continue;
      }
      action[name] = sample(spec, random, { legal });
    }
    return action;
  };
}

type Masks = DynamicObservation[string];

/** Returns the mask of an action in the observation `legal_actions`; undefined if it is missing or malformed. */
function maskOf(
  name: string,
  spec: TensorSpec,
  masks: Masks,
  isOnly: boolean,
): Tensor<"bool"> | undefined {
  if (!isDiscrete(spec)) {
    return undefined;
  }
  let found: Masks | undefined = masks;
  if (!isTensor(masks)) {
    for (const key of name.split(".")) {
      found = under(found, key);
    }
  } else if (!isOnly) {
    return undefined;
  }
  if (!isTensor(found) || found.dtype !== "bool") {
    return undefined;
  }
  return found.data.length === legalActions(spec).shape[0] ? found : undefined;
}

function under(masks: Masks | undefined, key: string): Masks | undefined {
  const isRecord = typeof masks === "object" && !isTensor(masks) && !("$typeName" in masks);
  return isRecord ? (masks as DynamicObservation)[key] : undefined;
}

function isTensor(value: Masks | undefined): value is Tensor {
  return typeof value === "object" && "dtype" in value && "data" in value;
}

/** Converts a server's reward, of any dtype and shape, to a number: the sum of its elements. */
export function rewardOf({ value }: SignalContext): number {
  if (value === undefined || typeof value === "string") {
    return 0;
  }
  if (typeof value !== "object") {
    return Number(value);
  }
  if (!("data" in value) || value.dtype === "string" || value.dtype === "proto") {
    return 0;
  }
  let sum = 0;
  for (const element of value.data) {
    sum += Number(element);
  }
  return sum;
}
