// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, flattenSpecs, type PackedTensor, t } from "@dm-env-rpc/tensor-codec";
import {
  optional,
  readSettings,
  type SettingSpecs,
  seedSetting,
  withDefault,
} from "../settings.ts";
import type { UntypedWorldDefinition } from "../world.ts";
import type { AutoresetMode, BatchRequest } from "./request.ts";
import { finalName, resetMask, resetSeeds, slotSpecs } from "./specs.ts";

const modes: readonly AutoresetMode[] = ["next-step", "same-step", "disabled"];

/** The join setting that requests a batch. */
const batchSetting = "batch";

/** The setting with a seed for each slot. */
export const seedsSetting = "seeds";

/** Settings of a join as a batch, in addition to those of the environment. */
const batchSettings = {
  [batchSetting]: optional(t.int32({ min: 1 })),
  autoreset: withDefault(t.string(), "next-step"),
  [seedsSetting]: optional(t.uint64([-1])),
  discount: withDefault(t.bool(), false),
} as const;

/**
 * Returns true if the settings of a join request a batch. A setting `batch` that the environment
 * itself declares does not.
 */
export function asksForBatch(
  definition: UntypedWorldDefinition,
  settings: ReadonlyMap<string, PackedTensor>,
): boolean {
  return canBatch(definition) && settings.has(batchSetting);
}

function canBatch({ batched, joinSettings = {} }: UntypedWorldDefinition): boolean {
  return batched !== undefined && !Object.hasOwn(joinSettings, batchSetting);
}

/**
 * Returns the settings that a join accepts, including those of a batch if the world supports it.
 */
export function joinSettingsOf(definition: UntypedWorldDefinition): SettingSpecs {
  const { joinSettings = {} } = definition;
  return canBatch(definition) ? { ...batchSettings, ...joinSettings } : joinSettings;
}

/**
 * Reads the settings of a join as a batch.
 *
 * @returns The request, and the settings of the environment.
 * @throws DmEnvRpcError, TensorError if a setting is invalid, or the environment has names that
 *   batches use.
 */
export function readBatch(
  definition: UntypedWorldDefinition,
  settings: ReadonlyMap<string, PackedTensor>,
): { readonly request: BatchRequest; readonly rest: ReadonlyMap<string, PackedTensor> } {
  const rest = new Map(settings);
  const own = new Map<string, PackedTensor>();
  for (const name of Object.keys(batchSettings)) {
    const packed = rest.get(name);
    if (packed !== undefined) {
      own.set(name, packed);
      rest.delete(name);
    }
  }
  const {
    batch: size = 1,
    autoreset,
    seeds,
    discount,
  } = readSettings(batchSettings, own, "join", false);
  const mode = modes.find((known) => known === autoreset);
  if (mode === undefined) {
    throw wrong(`"autoreset": expected one of ${modes.join(", ")}, received "${autoreset}"`);
  }
  const taken = takenName(definition, mode);
  if (taken !== undefined) {
    throw wrong(
      `the world "${definition.name}" cannot be joined as a batch: batches reserve the name of its ${taken}; join without "${batchSetting}", or have the name changed`,
    );
  }
  if (seeds !== undefined) {
    refuseBoth({ [seedSetting]: rest.get(seedSetting) });
  }
  return {
    request: {
      size,
      autoreset: mode,
      seeds: seeds === undefined ? undefined : seedsOf(seeds as SeedTensor, size),
      observesDiscount: discount,
    },
    rest,
  };
}

/** @throws DmEnvRpcError if settings contain both `seeds` and `seed`. */
export function refuseBoth(settings: Readonly<Record<string, unknown>>): void {
  if (settings[seedSetting] !== undefined) {
    throw wrong(`expected "${seedSetting}" or "${seedsSetting}", received both; send one of them`);
  }
}

interface SeedTensor {
  readonly data: BigUint64Array;
}

/** @throws DmEnvRpcError if the number of seeds is not the number of slots. */
export function seedsOf({ data }: SeedTensor, size: number): BigUint64Array {
  if (data.length !== size) {
    throw wrong(
      `"${seedsSetting}": expected a seed for each of ${size} slots, received ${data.length}; to derive them, send one "${seedSetting}"`,
    );
  }
  return data.slice();
}

/** The settings of a reset of a batch. */
export function batchResetSettings(settings: SettingSpecs = {}): SettingSpecs {
  return { ...settings, [seedsSetting]: optional(t.uint64([-1])) };
}

/** Returns the kind and name of a setting, action or observation whose name batches reserve. */
function takenName(definition: UntypedWorldDefinition, mode: AutoresetMode): string | undefined {
  const { joinSettings = {}, resetSettings = {}, actions, observations } = definition;
  const find = (what: string, names: readonly string[], taken: readonly string[]) => {
    const name = names.find((candidate) => taken.includes(candidate.split(".")[0] as string));
    return name === undefined ? undefined : `${what} "${name}"`;
  };
  const named = (specs: object): string[] => Object.keys(flattenSpecs(specs as never));
  const observed = [...Object.keys(slotSpecs), ...(mode === "same-step" ? [finalName] : [])];
  return (
    find("join setting", Object.keys(joinSettings), Object.keys(batchSettings)) ??
    find("reset setting", Object.keys(resetSettings), [seedsSetting]) ??
    find("action", named(actions), [resetMask, resetSeeds]) ??
    find("observation", named(observations), observed)
  );
}

function wrong(message: string): DmEnvRpcError {
  return new DmEnvRpcError("INVALID_ARGUMENT", message);
}
