// SPDX-License-Identifier: Apache-2.0
import { type PackablesOf, type Specs, type TensorSpec, t } from "@dm-env-rpc/tensor-codec";
import { freeRunning } from "../clocks/free-running.ts";
import type { AgentId, SequenceState } from "./agent.ts";
import { type Awaitable, isPromiseLike } from "./awaitable.ts";
import { checkEnvironment, checkEnvironmentOptions } from "./hooks.ts";
import type { OnlyNames } from "./names.ts";
import type { SeededRandom } from "./random.ts";
import type { SettingSpecs, SettingValues } from "./settings.ts";
import type {
  ActionsOf,
  AgentCounts,
  DestroyPolicy,
  FromSettings,
  Observers,
  World,
  WorldDefinition,
} from "./world.ts";

/** What a single-agent environment returns from a step (dm_env, "Overview"). */
export interface EnvironmentStep<O extends Specs> {
  /** Every observation, kept until the next step and not copied. */
  readonly observation: PackablesOf<O>;
  /** Default 0. */
  readonly reward?: number;
  /** `terminated` is a natural end, `interrupted` one that cuts the sequence short. Default `running`. */
  readonly state?: SequenceState;
}

/** A single-agent environment in dm_env's terms. */
export interface SingleAgentEnvironment<A extends Specs, O extends Specs> {
  /** Begins a sequence and returns its first observation. */
  reset(): Awaitable<PackablesOf<O>>;
  /** Acts. Actions that were not given are not in the record. */
  step(action: ActionsOf<A>): Awaitable<EnvironmentStep<O>>;
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
  /** The agent's own, seeded from the world's seed and the order of joining. */
  readonly random: SeededRandom;
}

/** A kind of single-agent environment. */
export interface SingleAgentDefinition<
  S extends SettingSpecs,
  J extends SettingSpecs,
  A extends Specs,
  O extends Specs,
  Created extends SingleAgentEnvironment<A, O> = SingleAgentEnvironment<A, O>,
> {
  /** Unique among the worlds of a server. */
  readonly name: string;
  readonly description?: string;
  readonly version?: string;
  /** Settings of a create. */
  readonly settings?: S;
  /** Settings of a join. */
  readonly joinSettings?: J;
  readonly actions: A;
  /** What is observed beside `reward`, a float32, which is added. */
  readonly observations: O;
  /** How many agents may have an environment each. */
  readonly agents?: FromSettings<AgentCounts, SettingValues<S>>;
  /**
   * A destroy with agents joined is refused (`refuse`, default), waits for them to
   * leave (`drain`, forced after `drainDeadlineMs`), or makes their next requests errors (`force`).
   */
  readonly onDestroy?: DestroyPolicy;
  /** Default 30,000. */
  readonly drainDeadlineMs?: number;
  /** Makes the environment of an agent that joins; it has the hooks of an environment and no others. */
  create(context: EnvironmentContext<SettingValues<S>, SettingValues<J>>): Awaitable<Created>;
}

/** The observations of an environment, with its reward. */
export type WithReward<O extends Specs> = O & {
  readonly reward: TensorSpec<"float32", readonly []>;
};

/**
 * Defines a kind of world from a single-agent environment: each agent that joins has
 * an instance of its own, which moves when it steps.
 */
export function defineEnvironment<
  const S extends SettingSpecs = Record<never, never>,
  const J extends SettingSpecs = Record<never, never>,
  const A extends Specs = Specs,
  const O extends Specs = Specs,
  Created extends SingleAgentEnvironment<A, O> = SingleAgentEnvironment<A, O>,
>(
  definition: SingleAgentDefinition<
    S,
    J,
    A,
    O,
    OnlyNames<Created, keyof SingleAgentEnvironment<A, O>, "an environment">
  >,
): WorldDefinition<S, J, Record<never, never>, Record<never, never>, A, WithReward<O>> {
  checkEnvironmentOptions(definition);
  const { create, observations, ...rest } = definition;
  return {
    ...rest,
    observations: { ...observations, reward: t.float32() },
    clock: freeRunning(),
    perAgent: true,
    create: ({ settings, random }) =>
      worldOf(observations, (joinSettings) => create({ settings, joinSettings, random })),
  };
}

type WorldOf<S, J, A extends Specs, O extends Specs> = World<
  S,
  J,
  Partial<Record<never, never>>,
  A,
  WithReward<O>
>;

function worldOf<S, J, A extends Specs, O extends Specs>(
  specs: O,
  make: (joinSettings: J) => Awaitable<SingleAgentEnvironment<A, O>>,
): WorldOf<S, J, A, O> {
  let environment: SingleAgentEnvironment<A, O> | undefined;
  let latest: EnvironmentStep<O> | undefined;
  let isOver = false;
  const made = (): SingleAgentEnvironment<A, O> => {
    if (environment === undefined) throw new Error("no agent has joined");
    return environment;
  };
  const keep = (step: EnvironmentStep<O>): void => {
    latest = step;
  };
  const close = (): Awaitable<void> => {
    const closed = environment;
    environment = undefined;
    return closed?.close?.();
  };
  return {
    join: (_agent, joinSettings) =>
      then(make(joinSettings), (created) => {
        environment = checkEnvironment(created);
        return isOver ? close() : undefined;
      }),
    destroy() {
      isOver = true;
      return close();
    },
    start: () => then(made().reset(), (observation) => keep({ observation })),
    step(actions) {
      const [action] = actions.values();
      return then(made().step(action ?? {}), keep);
    },
    status: () => latest?.state ?? "running",
    observe: {
      ...observersOf(specs, () => latest?.observation),
      reward: () => latest?.reward ?? 0,
    } as Observers<WithReward<O>>,
  };
}

/** Functions that pick each observation from the latest, nested as the specs are. */
function observersOf(specs: Specs, latest: () => unknown): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(specs).map(([name, spec]) => {
      const pick = (): unknown => (latest() as Record<string, unknown> | undefined)?.[name];
      const isSpec = typeof spec["dtype"] === "string";
      return [name, isSpec ? (_agent: AgentId) => pick() : observersOf(spec as Specs, pick)];
    }),
  );
}

function then<T, R>(value: Awaitable<T>, use: (value: T) => Awaitable<R>): Awaitable<R> {
  return isPromiseLike(value) ? value.then(use) : use(value);
}
