// SPDX-License-Identifier: Apache-2.0

import { type Reseedable, reseedable, type SeededRandom } from "../definition/random.ts";
import { seedOf } from "../definition/seed.ts";
import { readSettings } from "../definition/settings.ts";
import type { AgentCounts, UntypedWorldDefinition } from "../definition/world.ts";
import type { HostOptions } from "./hosted-world.ts";
import { SeatSpecs } from "./seat-specs.ts";
import type { WorldCalls } from "./world-calls.ts";

/** The values of settings, by name. */
export type Settings = Readonly<Record<string, unknown>>;

/** What a world is made with, and what resets of it have changed since. */
export class WorldSettings {
  values: Settings;
  readonly #source: Reseedable;
  readonly counts: Required<AgentCounts>;
  readonly #definition: UntypedWorldDefinition;
  readonly #maxElements: number;
  #fixedSpecs: SeatSpecs | undefined;

  /** @throws DmEnvRpcError INVALID_ARGUMENT for bad settings. */
  constructor({ definition, settings, seed, randomSeed, limits }: HostOptions) {
    this.#definition = definition;
    this.#maxElements = limits.maxElements;
    this.values = readSettings(definition.settings ?? {}, settings, "create", false);
    this.#source = reseedable(seed ?? seedOf(this.values) ?? randomSeed());
    const { agents = {} } = definition;
    this.counts = {
      min: 1,
      max: 1000,
      ...(typeof agents === "function" ? agents(this.values as never) : agents),
    };
  }

  get random(): SeededRandom {
    return this.#source.random;
  }

  /** Takes over the settings of a reset of the world. */
  change(settings: Settings): void {
    this.values = { ...this.values, ...settings };
    this.reseed(settings);
  }

  /** Seeds the random source anew if there is a seed among some settings. */
  reseed(settings: Settings): void {
    const seed = seedOf(settings);
    if (seed !== undefined) this.#source.reseed(seed);
  }

  /**
   * The specs of an agent with some join settings.
   *
   * @throws DmEnvRpcError, TensorError where none can be made of its settings, which are its own fault.
   */
  specsFor(join: Settings, calls: WorldCalls): SeatSpecs {
    let specs: SeatSpecs | undefined;
    const refused = calls.refusal("specs", () => {
      specs = this.#makeSpecs(join);
    });
    if (specs === undefined) throw refused;
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
