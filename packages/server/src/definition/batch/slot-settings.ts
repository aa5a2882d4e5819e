// SPDX-License-Identifier: Apache-2.0
import { dtypes, type Tensor } from "@dm-env-rpc/tensor-codec";
import { type Reseedable, reseedable, type SeededRandom } from "../random.ts";
import { type Setting, type SettingSpecs, type SettingValues, seedSetting } from "../settings.ts";
import { refuseBoth, seedsOf, seedsSetting } from "./settings.ts";

type Values = SettingValues<SettingSpecs>;

/** Options of SlotSettings. */
export interface SlotSettingsOptions {
  readonly size: number;
  /** Random source of the batch: slot i has its seed plus i, modulo 2^64. */
  readonly random: SeededRandom;
  /** A seed for each slot, which replaces the seeds derived from `random`. */
  readonly list: BigUint64Array | undefined;
  readonly joinSettings: SettingSpecs;
  readonly resetSettings: SettingSpecs;
}

/**
 * Settings and random sources of a batch's slots. Each slot has the values that a single
 * environment with the slot's seed would have.
 */
export class SlotSettings {
  readonly #random: SeededRandom;
  readonly #sources: readonly Reseedable[];
  readonly #joinSeed: Setting | undefined;
  readonly #resetSeed: Setting | undefined;
  #list: BigUint64Array | undefined;
  /** True if a reset set a list that no sequence has used yet. */
  #isListNew = false;
  /** Settings that the agent's resets have changed since it joined. */
  #changed: Values = {};

  constructor({ size, random, list, joinSettings, resetSettings }: SlotSettingsOptions) {
    this.#random = random;
    this.#list = list;
    this.#joinSeed = joinSettings[seedSetting];
    this.#resetSeed = resetSettings[seedSetting];
    this.#sources = Array.from({ length: size }, (_, slot) => reseedable(this.#seedOf(slot)));
  }

  #seedOf(slot: number): bigint {
    return this.#list?.[slot] ?? BigInt.asUintN(64, this.#random.seed + BigInt(slot));
  }

  /** The random source of each slot. */
  get randoms(): readonly SeededRandom[] {
    return this.#sources.map(({ random }) => random);
  }

  /**
   * Returns the join settings of a slot, as if a single environment were joined with the slot's
   * seed.
   */
  inJoin(settings: Values, slot: number): Values {
    const isSeeded = settings[seedSetting] !== undefined || this.#list !== undefined;
    return isSeeded ? withSeed(settings, this.#seedOf(slot), this.#joinSeed) : settings;
  }

  /**
   * Applies the settings of the agent's reset to the sequences that begin at its next step.
   *
   * @throws DmEnvRpcError if `seeds` has another length than the batch, or is sent with `seed`.
   */
  change(settings: Values): void {
    const { [seedsSetting]: list, ...others } = settings;
    if (list !== undefined) {
      refuseBoth(others);
      this.#list = seedsOf(list as Tensor<"uint64">, this.#sources.length);
      this.#isListNew = true;
    } else if (others[seedSetting] !== undefined) {
      this.#list = undefined;
      this.#isListNew = false;
    }
    this.#changed = { ...this.#changed, ...others };
  }

  /** Changed settings, for sequences that begin by themselves. */
  get changed(): Values {
    return this.#changed;
  }

  /**
   * Seeds the slots if a seed was set.
   *
   * @returns A function that returns the reset settings of a slot, as if a single environment were
   * reset with the slot's seed.
   */
  begin(isReseeded: boolean): (slot: number) => Values {
    if (isReseeded && !this.#isListNew) {
      this.#list = undefined;
    }
    if (isReseeded || this.#isListNew) {
      for (const [slot, source] of this.#sources.entries()) {
        source.reseed(this.#seedOf(slot));
      }
    }
    // A seed applies to one sequence: later ones continue with the random source.
    const { [seedSetting]: seed, ...others } = this.#changed;
    const isSeeded = seed !== undefined || this.#isListNew;
    this.#isListNew = false;
    this.#changed = others;
    return (slot) => (isSeeded ? withSeed(others, this.#seedOf(slot), this.#resetSeed) : others);
  }

  /**
   * Seeds a slot that begins a sequence while others continue, if there is a seed.
   *
   * @returns The slot's reset settings, as if a single environment were reset.
   */
  beginAlone(slot: number, seed: bigint | undefined): Values {
    if (seed === undefined) {
      return this.#changed;
    }
    this.#sources[slot]?.reseed(seed);
    return withSeed(this.#changed, seed, this.#resetSeed);
  }
}

function withSeed(settings: Values, seed: bigint, spec: Setting | undefined): Values {
  const setting = spec && asSetting(seed, spec);
  return setting === undefined ? settings : { ...settings, [seedSetting]: setting };
}

/** Returns a seed as a value of a setting's spec; undefined if the spec is not a scalar integer. */
function asSetting(seed: bigint, { dtype, shape }: Setting): bigint | number | undefined {
  const { kind, range } = dtypes[dtype];
  if (shape.length > 0 || (kind !== "bigint" && kind !== "int")) {
    return undefined;
  }
  const isSigned = range !== undefined && range.min < 0;
  const value = isSigned ? BigInt.asIntN(64, seed) : seed;
  return kind === "bigint" ? value : Number(value);
}
