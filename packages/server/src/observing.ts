// SPDX-License-Identifier: Apache-2.0
import {
  DmEnvRpcError,
  packFor,
  type SpecEntry,
  type Tensor,
  type TensorSpec,
  type Uid,
  type UidTensor,
  zeros,
} from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "./agent.ts";
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

/** Makes the observations of a world's agents; what is not asked for is not computed. */
export class Observing {
  readonly #observers = new Map<string, Observe>();

  readonly #checks: ObservationChecks;
  readonly #unbounded = new WeakMap<TensorSpec, TensorSpec>();
  #observed = 0;

  constructor(observe: object, checks: ObservationChecks) {
    this.#checks = checks;
    this.#collect(observe, "");
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

  /** The observations as the world is at `tick`; the reward is what added up since the last response. */
  observe(seat: Seat, requested: readonly SpecEntry[], tick: number): UidTensor[] {
    const observations = new Array<UidTensor>(requested.length);
    for (let i = 0; i < requested.length; i++) {
      const entry = requested[i] as SpecEntry;
      const tensor =
        entry.name === "reward" ? this.#reward(seat, entry, tick) : this.#one(seat, entry);
      observations[i] = { uid: entry.uid, tensor };
    }
    seat.reward.clear();
    seat.rewardTick = tick;
    return observations;
  }

  /** @throws WorldFault when the author's function throws, or returns what does not fit the spec. */
  #one(seat: Seat, entry: SpecEntry): Tensor {
    let value: unknown;
    try {
      value = this.#observer(entry.name)(seat.agent);
      return packFor(value, this.#checked(entry.spec), entry.name);
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

  #reward(seat: Seat, entry: SpecEntry, tick: number): Tensor {
    this.addReward(seat, tick);
    try {
      return seat.reward.take() ?? zeros(entry.spec);
    } catch (error) {
      throw new WorldFault("observe.reward", error);
    }
  }

  /** Adds the reward of `tick` to what the agent is owed, if that was not done yet. */
  addReward(seat: Seat, tick: number): void {
    if (seat.rewardTick === tick) return;
    seat.rewardTick = tick;
    const entry = seat.specs.observations.byName.get("reward");
    if (entry === undefined) return;
    const reward = this.#one(seat, entry);
    try {
      seat.reward.add(reward);
    } catch (error) {
      throw new WorldFault("observe.reward", error);
    }
  }

  /** Keeps every observation of an agent, before the world moves on. */
  save(seat: Seat, tick: number): ReadonlyMap<Uid, UidTensor> {
    const all = this.observe(seat, seat.specs.observations.entries, tick);
    return new Map(
      all.map(({ uid, tensor }) => [
        uid,
        { uid, tensor: { ...tensor, data: tensor.data.slice() } as Tensor },
      ]),
    );
  }
}
