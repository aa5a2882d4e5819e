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
import type { Uid, UidTensor } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentId } from "../definition/agent.ts";
import { ScalarTensor } from "./scalar-tensor.ts";
import type { Seat } from "./seat.ts";
import { promised, WorldFault } from "./world-calls.ts";

type Observe = (agent: AgentId) => unknown;

/**
 * Whether observations are held to the bounds of their specs: `always`, for one in
 * 61 (`sampled`), or not (`off`). Their dtype and shape are always checked: a response
 * is never malformed.
 */
export type ObservationChecks = "always" | "sampled" | "off";

/** A prime, so that an agent that asks for the same few every step has each of them checked. */
const sampleEvery = 61;

/** How one observation is made. */
interface HowMade {
  readonly entry: SpecEntry;
  readonly observe: Observe;
  /** For a number without bounds: where it is put, again and again. */
  readonly scalar: ScalarTensor | undefined;
}

/** How one observation that agents ask for is answered. */
interface Recipe extends HowMade {
  readonly isReward: boolean;
  /** The answer with that scalar. */
  readonly scalarAnswer: UidTensor | undefined;
}

/** Makes the observations of a world's agents; what is not asked for is not computed. */
export class Observing {
  readonly #observers = new Map<string, Observe>();
  readonly #checks: ObservationChecks;
  readonly #unbounded = new WeakMap<TensorSpec, TensorSpec>();
  /** By the list that a step asks for, which is the same one as long as the agent asks for the same. */
  readonly #recipes = new WeakMap<readonly SpecEntry[], readonly Recipe[]>();
  #observed = 0;
  /** Whether there can be rewards. */
  readonly hasRewards: boolean;

  constructor(observe: object, checks: ObservationChecks) {
    this.#checks = checks;
    this.#collect(observe, "");
    this.hasRewards = this.#observers.has("reward");
  }

  #collect(observe: object, prefix: string): void {
    for (const [key, value] of Object.entries(observe)) {
      if (typeof value === "function") this.#observers.set(prefix + key, value.bind(observe));
      else if (typeof value === "object" && value !== null)
        this.#collect(value, `${prefix}${key}.`);
    }
  }

  /** @throws DmEnvRpcError INTERNAL when a spec has no function. */
  check(seat: Seat): void {
    for (const { name } of seat.specs.observations.entries) this.#observer(name);
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
    let recipes = this.#recipes.get(requested);
    if (recipes === undefined) {
      recipes = requested.map((entry) => this.#recipe(entry));
      this.#recipes.set(requested, recipes);
    }
    return recipes;
  }

  #recipe(entry: SpecEntry): Recipe {
    const { uid, name, spec } = entry;
    const scalar = ScalarTensor.for(spec);
    return {
      entry,
      observe: this.#observer(name),
      isReward: name === "reward",
      scalar,
      scalarAnswer: scalar && { uid, tensor: scalar.tensor },
    };
  }

  /**
   * The observations as the world is; the reward is what added up since the last response.
   *
   * @param requested A list that stays as it is.
   * @returns Tensors that are valid until the next call.
   */
  observe(seat: Seat, requested: readonly SpecEntry[]): readonly UidTensor[] {
    const recipes = this.#recipesFor(requested);
    const observations = new Array<UidTensor>(recipes.length);
    for (let i = 0; i < recipes.length; i++) {
      const recipe = recipes[i] as Recipe;
      const tensor = recipe.isReward ? this.#reward(seat, recipe) : this.#one(seat, recipe);
      observations[i] =
        recipe.scalarAnswer?.tensor === tensor
          ? recipe.scalarAnswer
          : { uid: recipe.entry.uid, tensor };
    }
    seat.reward.clear();
    return observations;
  }

  /** @throws WorldFault when the author's function throws, or returns what does not fit the spec. */
  #one(seat: Seat, { entry, observe, scalar }: HowMade): PackedTensor {
    let value: unknown;
    try {
      value = observe(seat.agent);
      return scalar?.pack(value) ?? packFor(value, this.#checked(entry.spec), entry.name);
    } catch (error) {
      throw new WorldFault(`observe.${entry.name}`, promised(value) ?? error);
    }
  }

  /** The spec that an observation is held to now, with its bounds or without. */
  #checked(spec: TensorSpec): TensorSpec {
    if (this.#checks === "always" || (spec.min === undefined && spec.max === undefined)) {
      return spec;
    }
    this.#observed += 1;
    if (this.#checks === "sampled" && this.#observed % sampleEvery === 1) return spec;
    let unbounded = this.#unbounded.get(spec);
    if (unbounded === undefined) {
      unbounded = { dtype: spec.dtype, shape: spec.shape };
      this.#unbounded.set(spec, unbounded);
    }
    return unbounded;
  }

  #reward(seat: Seat, recipe: Recipe): PackedTensor {
    const { reward } = seat;
    if (reward.isDue && reward.isEmpty) {
      reward.isDue = false;
      return this.#one(seat, recipe);
    }
    this.addReward(seat);
    try {
      return reward.take() ?? zeros(recipe.entry.spec);
    } catch (error) {
      throw new WorldFault("observe.reward", error);
    }
  }

  /** Adds the reward of the last tick to what the agent is owed, if it has one and that was not done yet. */
  addReward(seat: Seat): void {
    if (!seat.reward.isDue) return;
    seat.reward.isDue = false;
    const entry = seat.specs.observations.byName.get("reward");
    if (entry === undefined) return;
    const observe = this.#observer(entry.name);
    const reward = this.#one(seat, { entry, observe, scalar: undefined });
    try {
      seat.reward.add(unpack(reward));
    } catch (error) {
      throw new WorldFault("observe.reward", error);
    }
  }

  /** Keeps every observation of an agent, before the world moves on. */
  save(seat: Seat): ReadonlyMap<Uid, UidTensor> {
    return new Map(
      this.observe(seat, seat.specs.observations.entries).map(({ uid, tensor }) => [
        uid,
        { uid, tensor: { ...tensor, data: tensor.data.slice() } as PackedTensor },
      ]),
    );
  }
}
