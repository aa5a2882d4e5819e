// SPDX-License-Identifier: Apache-2.0
import { type Specs, t } from "@dm-env-rpc/tensor-codec";
import type { Awaitable } from "../awaitable.ts";
import type { SettingSpecs, SettingValues } from "../settings.ts";
import type { EnvironmentContext, UntypedEnvironment } from "../single-agent.ts";
import type { BatchedWorld, UntypedWorldDefinition } from "../world.ts";
import type { BatchHost, BatchRequest } from "./request.ts";
import { batchResetSettings } from "./settings.ts";
import { SlotBatch } from "./slot-batch.ts";
import { SlotSeeds } from "./slot-seeds.ts";
import {
  batchedSpecs,
  checkSizes,
  discountName,
  finalName,
  resetMask,
  slotSpecs,
} from "./specs.ts";

type Values = SettingValues<SettingSpecs>;

/** Makes an environment from its context. */
type Create = (context: EnvironmentContext<Values, Values>) => Awaitable<UntypedEnvironment>;

/** How the environments that `create` makes are joined as a batch. */
export function batchOf(create: Create): NonNullable<UntypedWorldDefinition["batched"]> {
  return (definition, request, host) => batchedWorld(definition, request, host, create);
}

function batchedWorld(
  { actions, observations, joinSettings = {}, resetSettings = {} }: UntypedWorldDefinition,
  request: BatchRequest,
  host: BatchHost,
  create: Create,
): BatchedWorld {
  const { size, seeds: list } = request;
  // Those of an environment are never functions of settings.
  const acted = actions as Specs;
  const { reward, ...observed } = observations as Specs;
  const observesDiscount = request.observesDiscount && !Object.hasOwn(observed, discountName);
  checkSizes({ ...observed, ...acted }, size, host.maxElements);
  return {
    resetSettings: batchResetSettings(resetSettings),
    actions: batchedSpecs({ ...acted, [resetMask]: t.bool() }, size),
    observations: batchedSpecs(
      {
        ...observed,
        ...(reward !== undefined && { reward }),
        ...slotSpecs,
        ...(observesDiscount && { [discountName]: t.float32() }),
        ...(request.autoreset === "same-step" && { [finalName]: observed }),
      },
      size,
    ),
    create: ({ settings, random }) =>
      new SlotBatch({
        request: { ...request, observesDiscount },
        host,
        actions: acted,
        observations: observed,
        seeds: new SlotSeeds({ random, list, joinSettings, resetSettings }),
        make: (join, source) => create({ settings, joinSettings: join, random: source }),
      }),
  };
}
