// SPDX-License-Identifier: Apache-2.0
import type { PackablesOf, Specs } from "@dm-env-rpc/tensor-codec";
import type { SequenceState } from "./agent.ts";
import type { Awaitable } from "./awaitable.ts";
import { known, namesOf } from "./names.ts";
import type { SeededRandom } from "./random.ts";
import type { SettingSpecs, SettingValues } from "./settings.ts";
import type { ActionsOf, Picture } from "./world.ts";

/** What a single-agent environment returns from a step (dm_env, "Overview"). */
export interface EnvironmentStep<O extends Specs> {
  /** Every observation, kept until the next step and not copied. */
  readonly observation: PackablesOf<O>;
  /** Default 0. */
  readonly reward?: number | undefined;
  /** `terminated` is a natural end, `interrupted` one that cuts the sequence short. Default `running`. */
  readonly state?: SequenceState | undefined;
}

/** A single-agent environment in dm_env's terms. */
export interface SingleAgentEnvironment<A extends Specs, O extends Specs, ResetSettings = object> {
  /**
   * Begins a sequence and returns its first observation.
   *
   * @param settings Those that the agent's resets have changed since it joined.
   */
  reset(settings: ResetSettings): Awaitable<PackablesOf<O>>;
  /**
   * Checks the actions of a step, before it: throwing a DmEnvRpcError or a TensorError refuses the step, which is answered
   * with the error, and the agent may step again.
   */
  validate?(action: ActionsOf<A>): void;
  /** Acts. Actions that were not given are not in the record. Throwing `refuse(error)` refuses the step, nothing having changed. */
  step(action: ActionsOf<A>): Awaitable<EnvironmentStep<O>>;
  /** What the environment looks like, for spectators, as a world's `picture`. In a batch that of slot 0. */
  picture?(): Picture;
  /**
   * The agent is gone, or the environment has failed: then its last call may not have come to an end.
   * Called once. Nobody waits for its promise.
   */
  close?(): Awaitable<void>;
}

/** What a single-agent environment is made from. */
export interface EnvironmentContext<Settings, JoinSettings> {
  readonly settings: Settings;
  readonly joinSettings: JoinSettings;
  /**
   * The agent's own: seeded by the `seed` of its join, else from the world's seed and the order of
   * joining; a reset of the agent with a `seed` seeds it anew.
   */
  readonly random: SeededRandom;
}

/** An environment whose specs are not known by type. */
export type UntypedEnvironment = SingleAgentEnvironment<Specs, Specs>;

const hooks = namesOf<SingleAgentEnvironment<Specs, Specs>>({
  reset: true,
  validate: true,
  step: true,
  picture: true,
  close: true,
});

/** The environment that a definition with these specs creates. */
export type EnvironmentOf<
  R extends SettingSpecs,
  A extends Specs,
  O extends Specs,
> = SingleAgentEnvironment<A, O, Partial<SettingValues<R>>>;

/**
 * Returns what an author's `create` made.
 *
 * @throws Error if it has a hook that no environment has.
 */
export function checkEnvironment(created: UntypedEnvironment): UntypedEnvironment {
  return known(created, hooks, "an environment");
}
