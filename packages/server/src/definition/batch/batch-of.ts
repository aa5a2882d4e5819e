// SPDX-License-Identifier: Apache-2.0
import { type Specs, t } from "@dm-env-rpc/tensor-codec";
import type { Awaitable } from "../awaitable.ts";
import type { BatchContext, UntypedBatchEnvironment } from "../batch-environment.ts";
import type { SettingSpecs, SettingValues } from "../settings.ts";
import type { EnvironmentContext, UntypedEnvironment } from "../single-agent.ts";
import type { BatchedWorld, UntypedWorldDefinition } from "../world.ts";
import { ArrayBatch } from "./array-batch.ts";
import type { BatchHost, BatchRequest } from "./request.ts";
import { Rows } from "./rows.ts";
import { Sequences } from "./sequences.ts";
import { batchResetSettings } from "./settings.ts";
import { SlotBatch } from "./slot-batch.ts";
import { SlotSettings } from "./slot-settings.ts";
import {
  batchedSpecs,
  checkSizes,
  discountName,
  finalName,
  resetMask,
  resetSeeds,
  slotSpecs,
} from "./specs.ts";

type Values = SettingValues<SettingSpecs>;

/** Makes an environment from its context. */
type Create = (context: EnvironmentContext<Values, Values>) => Awaitable<UntypedEnvironment>;

/** Makes the environments of a batch from their context. */
type CreateBatch = (
  context: BatchContext<Values, Values, Specs>,
) => Awaitable<UntypedBatchEnvironment>;

/**
 * Returns the `batched` function of a world: it creates the slots with `createBatch` if defined,
 * otherwise with `create`.
 */
export function batchOf(
  create: Create,
  createBatch: CreateBatch | undefined,
): NonNullable<UntypedWorldDefinition["batched"]> {
  return (definition, request, host) =>
    batchedWorld(definition, request, host, create, createBatch);
}

function batchedWorld(
  { actions, observations, joinSettings = {}, resetSettings = {} }: UntypedWorldDefinition,
  request: BatchRequest,
  host: BatchHost,
  create: Create,
  createBatch: CreateBatch | undefined,
): BatchedWorld {
  const { size, seeds: list, autoreset } = request;
  // The specs of an environment are never functions of settings.
  const acted = actions as Specs;
  const { reward, ...observed } = observations as Specs;
  const observesDiscount = request.observesDiscount && !Object.hasOwn(observed, discountName);
  for (const specs of [observed, acted]) {
    checkSizes(specs, size, { maxElements: host.maxElements, setting: "batch" });
  }
  return {
    resetSettings: batchResetSettings(resetSettings),
    actions: batchedSpecs({ ...acted, [resetMask]: t.bool(), [resetSeeds]: t.uint64() }, size),
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
    checksObservations: createBatch === undefined,
    create: ({ settings, random }) => {
      const parts = {
        size,
        actions: acted,
        rows: new Rows({
          size,
          specs: observed,
          checks: host.checks,
          keepsFinal: autoreset === "same-step",
          observesDiscount,
        }),
        sequences: new Sequences(size, autoreset),
        settings: new SlotSettings({ size, random, list, joinSettings, resetSettings }),
      };
      if (createBatch !== undefined) {
        return new ArrayBatch({
          ...parts,
          make: (context) => createBatch({ ...context, settings }),
        });
      }
      return new SlotBatch({
        ...parts,
        host,
        make: (join, source) => create({ settings, joinSettings: join, random: source }),
      });
    },
  };
}
