// SPDX-License-Identifier: Apache-2.0
import { dtypes } from "@dm-env-rpc/tensor-codec";
import type { SeededRandom } from "../random.ts";
import { type Setting, type SettingSpecs, type SettingValues, seedSetting } from "../settings.ts";

type Values = SettingValues<SettingSpecs>;

/** What the seeds of slots are made from. */
export interface SlotSeedsOptions {
  /** The batch's own random source: slot 0 has its seed, and each other the next one. */
  readonly random: SeededRandom;
  /** A seed for each slot instead. */
  readonly list: BigUint64Array | undefined;
  readonly joinSettings: SettingSpecs;
  readonly resetSettings: SettingSpecs;
}

/** The seeds of a batch's slots. */
export class SlotSeeds {
  readonly #random: SeededRandom;
  readonly #joinSeed: Setting | undefined;
  readonly #resetSeed: Setting | undefined;
  #list: BigUint64Array | undefined;
  /** True if a reset gave a list that no sequence has begun with. */
  areNew = false;

  constructor({ random, list, joinSettings, resetSettings }: SlotSeedsOptions) {
    this.#random = random;
    this.#list = list;
    this.#joinSeed = joinSettings[seedSetting];
    this.#resetSeed = resetSettings[seedSetting];
  }

  of(slot: number): bigint {
    return this.#list?.[slot] ?? BigInt.asUintN(64, this.#random.seed + BigInt(slot));
  }

  /** Takes a seed for each slot. */
  use(list: BigUint64Array): void {
    this.#list = list;
    this.areNew = true;
  }

  /** Derives the seeds from that of the batch again. */
  derive(): void {
    this.#list = undefined;
    this.areNew = false;
  }

  /** The join settings of a slot: as if it were joined alone, with its own seed. */
  inJoin(settings: Values, slot: number): Values {
    const isGiven = settings[seedSetting] !== undefined || this.#list !== undefined;
    return isGiven ? this.#with(settings, slot, this.#joinSeed) : settings;
  }

  /** The reset settings of a slot: as if it were reset alone, with its own seed. */
  inReset(settings: Values, slot: number): Values {
    return this.#with(settings, slot, this.#resetSeed);
  }

  #with(settings: Values, slot: number, spec: Setting | undefined): Values {
    const seed = spec && asSetting(this.of(slot), spec);
    return seed === undefined ? settings : { ...settings, [seedSetting]: seed };
  }
}

/** A seed as the setting of its spec; undefined if that is not an integer. */
function asSetting(seed: bigint, { dtype, shape }: Setting): bigint | number | undefined {
  const { kind, range } = dtypes[dtype];
  if (shape.length > 0 || (kind !== "bigint" && kind !== "int")) {
    return undefined;
  }
  const isSigned = range !== undefined && range.min < 0;
  const value = isSigned ? BigInt.asIntN(64, seed) : seed;
  return kind === "bigint" ? value : Number(value);
}
