// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  type PackedTensor,
  packFor,
  type TensorSpec,
  unpack,
  zeros,
} from "@dm-env-rpc/tensor-codec";
import type { SpecEntry } from "@dm-env-rpc/tensor-codec/proto";
import type { UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentId } from "../definition/agent.ts";
import { type ObservationChecks, sampleEvery } from "../definition/observation-checks.ts";
import { promised, WorldFault } from "./author-calls.ts";
import type { RewardSum } from "./rewards.ts";
import { ScalarTensor } from "./scalar-tensor.ts";
import type { SeatSpecs } from "./seat-specs.ts";

type Observe = (agent: AgentId) => unknown;

/** Function and spec of one observation. */
interface HowMade {
  readonly entry: SpecEntry;
  readonly observe: Observe;
  /** Reused for a number without bounds. */
  readonly scalar: ScalarTensor | undefined;
  /** The entry's spec without its bounds. */
  readonly unbounded: TensorSpec;
}

/** Function, spec and response of one requested observation. */
interface Recipe extends HowMade {
  readonly isReward: boolean;
  /** The response that holds `scalar`. */
  readonly scalarAnswer: UidTensor | undefined;
}

/**
 * Packs the observations of a world's agents. For a response, only the requested observations are
 * computed (behaviour 31).
 */
export class Observing {
  readonly #observers = new Map<string, Observe>();
  readonly #checks: ObservationChecks;
  /**
   * Recipes by list of requested observations. Repeated identical requests share one list object
   * (see `SeatSpecs.readRequested`).
   */
  readonly #recipes = new WeakMap<readonly SpecEntry[], readonly Recipe[]>();
  #lastRequested: readonly SpecEntry[] = [];
  #lastRecipes: readonly Recipe[] = [];
  #observed = 0;
  /** True if the world has rewards. */
  readonly hasRewards: boolean;

  constructor(observe: object, checks: ObservationChecks) {
    this.#checks = checks;
    this.#collect(observe, "");
    this.hasRewards = this.#observers.has("reward");
  }

  #collect(observe: object, prefix: string): void {
    for (const [key, value] of Object.entries(observe)) {
      if (typeof value === "function") {
        this.#observers.set(prefix + key, value.bind(observe));
      } else if (typeof value === "object" && value !== null) {
        this.#collect(value, `${prefix}${key}.`);
      }
    }
  }

  /** @throws DmEnvRpcError INTERNAL if an observation has a spec but no function. */
  check({ observations }: SeatSpecs): void {
    for (const { name } of observations.entries) {
      this.#observer(name);
    }
  }

  #observer(name: string): Observe {
    const observer = this.#observers.get(name);
    if (observer === undefined) {
      throw new DmEnvRpcError(
        "INTERNAL",
        `the world declares the observation "${name}" but its "observe" has no function of that name`,
      );
    }
    return observer;
  }

  #recipesFor(requested: readonly SpecEntry[]): readonly Recipe[] {
    if (requested === this.#lastRequested) {
      return this.#lastRecipes;
    }
    let recipes = this.#recipes.get(requested);
    if (recipes === undefined) {
      recipes = requested.map((entry) => this.#recipe(entry));
      this.#recipes.set(requested, recipes);
    }
    this.#lastRequested = requested;
    this.#lastRecipes = recipes;
    return recipes;
  }

  #howMade(entry: SpecEntry, scalar?: ScalarTensor): HowMade {
    const { dtype, shape } = entry.spec;
    return { entry, observe: this.#observer(entry.name), scalar, unbounded: { dtype, shape } };
  }

  #recipe(entry: SpecEntry): Recipe {
    const { uid, name, spec } = entry;
    const scalar = ScalarTensor.for(spec);
    return {
      ...this.#howMade(entry, scalar),
      isReward: name === "reward",
      scalarAnswer: scalar && { uid, tensor: scalar.tensor },
    };
  }

  /**
   * Packs the current observations of an agent; its reward is the sum since the last response.
   * Resets the sum.
   *
   * @param requested A list that does not change.
   * @returns Borrowed tensors, valid until the next call.
   */
  observe(
    agent: AgentId,
    reward: RewardSum,
    requested: readonly SpecEntry[],
  ): readonly UidTensor[] {
    const recipes = this.#recipesFor(requested);
    const observations = new Array<UidTensor>(recipes.length);
    for (let i = 0; i < recipes.length; i++) {
      const recipe = recipes[i] as Recipe;
      const tensor = recipe.isReward
        ? this.#reward(agent, reward, recipe)
        : this.#one(agent, recipe);
      observations[i] =
        recipe.scalarAnswer?.tensor === tensor
          ? recipe.scalarAnswer
          : { uid: recipe.entry.uid, tensor };
    }
    reward.clear();
    return observations;
  }

  /** @throws WorldFault if the author's function throws, or its result does not fit the spec. */
  #one(agent: AgentId, how: HowMade): PackedTensor {
    const { name } = how.entry;
    let value: unknown;
    try {
      value = how.observe(agent);
      return how.scalar?.pack(value) ?? packFor(value, this.#checked(how), name);
    } catch (error) {
      throw new WorldFault(`observe.${name}`, promised(value) ?? error);
    }
  }

  /** Returns the spec for the next check of an observation: with its bounds or without. */
  #checked({ entry: { spec }, unbounded }: HowMade): TensorSpec {
    if (this.#checks === "always" || (spec.min === undefined && spec.max === undefined)) {
      return spec;
    }
    this.#observed += 1;
    if (this.#checks === "sampled" && this.#observed % sampleEvery === 1) {
      return spec;
    }
    return unbounded;
  }

  #reward(agent: AgentId, reward: RewardSum, recipe: Recipe): PackedTensor {
    const { entry } = recipe;
    if (reward.isDue && reward.isEmpty) {
      const only = this.#one(agent, recipe);
      reward.count(only);
      return only;
    }
    if (reward.isDue) {
      this.#add(agent, reward, entry);
    }
    try {
      return reward.take() ?? zeros(entry.spec);
    } catch (error) {
      throw new WorldFault("observe.reward", error);
    }
  }

  /**
   * Packs one observation of an agent, other than its reward, for a spectator.
   *
   * @throws WorldFault as `observe` does.
   */
  read(agent: AgentId, entry: SpecEntry): PackedTensor {
    return this.#one(agent, this.#howMade(entry));
  }

  /** Adds the reward of the last tick to the sum, if it is due and the agent has rewards. */
  addReward(agent: AgentId, reward: RewardSum, { observations }: SeatSpecs): void {
    const entry = reward.isDue ? observations.byName.get("reward") : undefined;
    if (entry !== undefined) {
      this.#add(agent, reward, entry);
    }
  }

  #add(agent: AgentId, reward: RewardSum, entry: SpecEntry): void {
    reward.isDue = false;
    const tensor = this.#one(agent, this.#howMade(entry));
    reward.count(tensor);
    try {
      reward.add(unpack(tensor));
    } catch (error) {
      throw new WorldFault("observe.reward", error);
    }
  }
}
