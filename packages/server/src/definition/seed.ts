// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { optional, type SettingSpecs, seedSetting } from "./settings.ts";

/** The part of a world's definition in which seeds are declared. */
interface Seedable {
  readonly perAgent?: boolean | undefined;
  readonly settings?: SettingSpecs | undefined;
  readonly joinSettings?: SettingSpecs | undefined;
  readonly resetSettings?: SettingSpecs | undefined;
  readonly resetWorldSettings?: SettingSpecs | undefined;
}

/**
 * Returns a definition with an optional uint64 `seed` in the settings of a create and of a reset of
 * the world, and with `perAgent` also in those of a join and of an agent's reset. Settings that
 * declare a `seed` are unchanged.
 */
export function withSeeds<T extends Seedable>(definition: T): T {
  const { perAgent, settings, joinSettings, resetSettings, resetWorldSettings } = definition;
  return {
    ...definition,
    settings: seeded(settings),
    resetWorldSettings: seeded(resetWorldSettings),
    ...(perAgent === true && {
      joinSettings: seeded(joinSettings),
      resetSettings: seeded(resetSettings),
    }),
  };
}

function seeded(specs: SettingSpecs = {}): SettingSpecs {
  const isTaken = Object.keys(specs).some((name) => name.split(".")[0] === seedSetting);
  return isTaken ? specs : { ...specs, [seedSetting]: optional(t.uint64()) };
}

/**
 * Returns the seed among the values of settings, modulo 2^64; undefined without one, or if it is
 * not an integer.
 */
export function seedOf(values: Readonly<Record<string, unknown>>): bigint | undefined {
  const seed = values[seedSetting];
  const isInteger = typeof seed === "bigint" || Number.isInteger(seed);
  return isInteger ? BigInt.asUintN(64, BigInt(seed as bigint | number)) : undefined;
}
