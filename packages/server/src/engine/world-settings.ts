// SPDX-License-Identifier: Apache-2.0
import { type Reseedable, reseedable, type SeededRandom } from "../definition/random.ts";
import { seedOf } from "../definition/seed.ts";
import { readSettings } from "../definition/settings.ts";
import type { AgentCounts, UntypedWorldDefinition } from "../definition/world.ts";
import type { PackedSettings } from "./requests.ts";
import { SeatSpecs } from "./seat-specs.ts";

/** The values of settings, by name. */
export type Settings = Readonly<Record<string, unknown>>;

/** Options of WorldSettings. */
export interface WorldSettingsOptions {
  readonly definition: UntypedWorldDefinition;
  /** Settings of the create. */
  readonly settings: PackedSettings;
  /** Returns the seed of a world without a setting `seed`. */
  readonly randomSeed: () => bigint;
  /** Takes precedence over the setting `seed`. */
  readonly seed?: bigint | undefined;
  readonly limits: { readonly maxElements: number };
}

/**
 * The settings of a world's create with the changes of its resets, and the values derived from
 * them.
 */
export class WorldSettings {
  values: Settings;
  readonly #source: Reseedable;
  readonly counts: { readonly min: number; readonly max: number };
  /** The author's `agents.max`; undefined if the default applies. */
  readonly declaredMax: number | undefined;
  readonly #definition: UntypedWorldDefinition;
  readonly #maxElements: number;
  #fixedSpecs: SeatSpecs | undefined;
  /** True if the random source was reseeded since a sequence last began. */
  isReseeded = false;

  /** @throws DmEnvRpcError, TensorError if a setting is missing, unknown or invalid. */
  constructor({ definition, settings, seed, randomSeed, limits }: WorldSettingsOptions) {
    this.#definition = definition;
    this.#maxElements = limits.maxElements;
    this.values = readSettings(definition.settings ?? {}, settings, "create", false);
    this.#source = reseedable(seed ?? seedOf(this.values) ?? randomSeed());
    const { agents = {} } = definition;
    const declared: AgentCounts =
      typeof agents === "function" ? agents(this.values as never) : agents;
    this.counts = { min: declared.min ?? 1, max: declared.max ?? 1000 };
    this.declaredMax = declared.max;
  }

  get random(): SeededRandom {
    return this.#source.random;
  }

  /** Applies the settings of a reset of the world; a new seed reseeds the random source. */
  change(settings: Settings): void {
    this.values = { ...this.values, ...settings };
    this.reseed(settings);
  }

  /** Reseeds the random source if `seed` is among the settings. */
  reseed(settings: Settings): void {
    const seed = seedOf(settings);
    if (seed !== undefined) {
      this.#source.reseed(seed);
      this.isReseeded = true;
    }
  }

  /**
   * Makes the specs of an agent from its join settings.
   *
   * @param refusal Calls an author's function (see `Outside.refusal`).
   * @throws DmEnvRpcError, TensorError if the author's functions refuse the settings.
   */
  specsFor(
    join: Settings,
    refusal: (name: string, run: () => void) => Error | undefined,
  ): SeatSpecs {
    let specs: SeatSpecs | undefined;
    const refused = refusal("specs", () => {
      specs = this.#makeSpecs(join);
    });
    if (specs === undefined) {
      throw refused;
    }
    return specs;
  }

  #makeSpecs(join: Settings): SeatSpecs {
    const { actions, observations } = this.#definition;
    if (typeof actions !== "function" && typeof observations !== "function") {
      this.#fixedSpecs ??= new SeatSpecs(actions, observations, this.#maxElements);
      return this.#fixedSpecs;
    }
    const settings = { create: this.values, join } as never;
    const resolve = <T>(specs: T | ((from: never) => T)): T =>
      typeof specs === "function" ? (specs as (from: never) => T)(settings) : specs;
    return new SeatSpecs(resolve(actions), resolve(observations), this.#maxElements);
  }
}
