// SPDX-License-Identifier: Apache-2.0
import type { PackablesOf, Specs } from "@dm-env-rpc/tensor-codec";
import type { SequenceState } from "./agent.ts";
import type { Awaitable } from "./awaitable.ts";
import { known, namesOf } from "./names.ts";
import type { SeededRandom } from "./random.ts";
import type { SettingSpecs, SettingValues } from "./settings.ts";
import type { ActionsOf, Picture } from "./world.ts";

/** Result of a single-agent environment's step (dm_env, "Overview"). */
export interface EnvironmentStep<O extends Specs> {
  /** Every observation. Not copied: do not change it before the next step. */
  readonly observation: PackablesOf<O>;
  /** Default 0. */
  readonly reward?: number | undefined;
  /**
   * `terminated` if the sequence reached its natural end, `interrupted` if it was cut short.
   * Default `running`.
   */
  readonly state?: SequenceState | undefined;
}

/** A single-agent environment in dm_env's terms. */
export interface SingleAgentEnvironment<A extends Specs, O extends Specs, ResetSettings = object> {
  /**
   * Begins a sequence and returns its first observation.
   *
   * @param settings Settings that the agent's resets have changed since it joined.
   */
  reset(settings: ResetSettings): Awaitable<PackablesOf<O>>;
  /**
   * Validates the actions of a step before the step runs: throwing a DmEnvRpcError or a TensorError
   * refuses the step. The agent receives the error, and may step again.
   */
  validate?(action: ActionsOf<A>): void;
  /**
   * Steps. Omitted actions are not in the record. Throwing `refuse(error)` refuses the step if
   * nothing has changed.
   */
  step(action: ActionsOf<A>): Awaitable<EnvironmentStep<O>>;
  /**
   * Draws the environment for spectators, like a world's `picture`. In a batch, only slot 0 is
   * drawn.
   */
  picture?(): Picture;
  /**
   * Called once, when the agent has left or the environment has failed. If it failed, an earlier
   * call may still be pending. The promise of `close` is not awaited.
   */
  close?(): Awaitable<void>;
}

/** Context of a single-agent environment. */
export interface EnvironmentContext<Settings, JoinSettings> {
  readonly settings: Settings;
  readonly joinSettings: JoinSettings;
  /**
   * Random source of the agent: seeded by the `seed` of its join, otherwise from the world's seed
   * and the order of joining; a reset of the agent with a `seed` reseeds it.
   */
  readonly random: SeededRandom;
}

/** An environment whose specs are not known at compile time. */
export type UntypedEnvironment = SingleAgentEnvironment<Specs, Specs>;

const hooks = namesOf<SingleAgentEnvironment<Specs, Specs>>({
  reset: true,
  validate: true,
  step: true,
  picture: true,
  close: true,
});

const stepNames = namesOf<EnvironmentStep<Specs>>({ observation: true, reward: true, state: true });

/** The environment that a definition with these specs creates. */
export type EnvironmentOf<
  R extends SettingSpecs,
  A extends Specs,
  O extends Specs,
> = SingleAgentEnvironment<A, O, Partial<SettingValues<R>>>;

/**
 * Returns the result of an author's `create`.
 *
 * @throws Error if it has an unknown hook.
 */
export function checkEnvironment(created: UntypedEnvironment): UntypedEnvironment {
  return known(created, hooks, "an environment");
}

/**
 * Checks the result of an author's `step`.
 *
 * @throws Error if it is not an object, or has an unknown property.
 */
export function checkStep(step: EnvironmentStep<Specs>): void {
  if (typeof step !== "object" || step === null) {
    throw new Error(`expected an environment's step with an observation, received ${step}`);
  }
  known(step, stepNames, "an environment's step");
}
