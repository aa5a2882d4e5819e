// SPDX-License-Identifier: Apache-2.0
import { type Specs, type TensorSpec, t } from "@dm-env-rpc/tensor-codec";
import type { AgentId } from "./agent.ts";
import { type Awaitable, andThen } from "./awaitable.ts";
import { batchOf } from "./batch/batch-of.ts";
import type { BatchContext, BatchEnvironment } from "./batch-environment.ts";
import type { Controls } from "./controls.ts";
import { namesOf, type OnlyNames, type OnlyResultNames, unknownName } from "./names.ts";
import { withSeeds } from "./seed.ts";
import { type SettingSpecs, type SettingValues, seedSetting } from "./settings.ts";
import {
  checkEnvironment,
  checkStep,
  type EnvironmentContext,
  type EnvironmentOf,
  type EnvironmentStep,
  type SingleAgentEnvironment,
  type UntypedEnvironment,
} from "./single-agent.ts";
import type {
  AgentCounts,
  DestroyPolicy,
  FromSettings,
  Observers,
  UntypedWorldDefinition,
  World,
  WorldDefinition,
} from "./world.ts";

/** A kind of single-agent environment. */
export interface SingleAgentDefinition<
  S extends SettingSpecs,
  J extends SettingSpecs,
  R extends SettingSpecs,
  A extends Specs,
  O extends Specs,
  Created extends EnvironmentOf<R, A, O> = EnvironmentOf<R, A, O>,
> {
  /** Unique among the worlds of a server. */
  readonly name: string;
  readonly description?: string | undefined;
  readonly version?: string | undefined;
  /**
   * Settings of a create. A create also accepts an optional uint64 `seed`, as do a join, an agent's
   * reset and a reset of the world, unless the definition declares a setting `seed`.
   */
  readonly settings?: S | undefined;
  /** Settings of a join. */
  readonly joinSettings?: J | undefined;
  /**
   * Settings of an agent's reset, all optional in the request; they apply to all later sequences of
   * the agent.
   */
  readonly resetSettings?: R | undefined;
  readonly actions: A;
  /** Observations, except `reward`: a float32 `reward` is declared automatically. */
  readonly observations: O;
  /**
   * Keys for people on the server's page. Default: a button for each value of a discrete action.
   */
  readonly controls?: Controls | undefined;
  /** Number of agents, each with an environment of its own. */
  readonly agents?: FromSettings<AgentCounts, SettingValues<S>> | undefined;
  /**
   * A destroy with agents joined is refused (`refuse`, default), waits for them to leave (`drain`,
   * until `drainDeadlineMs`), or answers their next requests with errors (`force`).
   */
  readonly onDestroy?: DestroyPolicy | undefined;
  /** Default 30,000. */
  readonly drainDeadlineMs?: number | undefined;
  /**
   * Milliseconds that a reset of the world (ResetWorldRequest) waits for agents to receive the end
   * of their sequence. Then the next sequence begins without the remaining agents. Default 10,000.
   */
  readonly resetDeadlineMs?: number | undefined;
  /**
   * Creates the environments of an agent that joins as a batch, simulated in arrays. Default:
   * `create` is called for each slot.
   */
  readonly createBatch?:
    | {
        /** Makes the environments. */
        make(
          context: BatchContext<SettingValues<S>, SettingValues<J>, O>,
        ): Awaitable<BatchEnvironment<A, Partial<SettingValues<R>>>>;
      }["make"]
    | undefined;
  /**
   * Creates the environment of an agent that joins. The environment may have only the documented
   * hooks.
   */
  create(context: EnvironmentContext<SettingValues<S>, SettingValues<J>>): Awaitable<Created>;
}

const options = namesOf<SingleAgentDefinition<never, never, never, Specs, Specs>>({
  name: true,
  description: true,
  version: true,
  settings: true,
  joinSettings: true,
  resetSettings: true,
  actions: true,
  observations: true,
  controls: true,
  agents: true,
  onDestroy: true,
  drainDeadlineMs: true,
  resetDeadlineMs: true,
  createBatch: true,
  create: true,
});

/** The observations of an environment, with its reward. */
export type WithReward<O extends Specs> = O & {
  readonly reward: TensorSpec<"float32", readonly []>;
};

/**
 * Defines a kind of world from a single-agent environment: each agent that joins has an instance of
 * its own, which advances when the agent steps.
 *
 * @throws Error if the definition has an unknown property.
 *
 * @example
 * const guess = defineEnvironment({
 *   name: "guess",
 *   actions: { number: t.discrete(100) },
 *   observations: { hint: t.int8({ min: -1, max: 1 }) },
 *   create({ random }) {
 *     let secret = 0;
 *     return {
 *       reset() {
 *         secret = random.integer(0, 99);
 *         return { hint: 0 };
 *       },
 *       step({ number = 0 }) {
 *         const hint = Math.sign(secret - number);
 *         const state = hint === 0 ? "terminated" : "running";
 *         return { observation: { hint }, reward: hint === 0 ? 1 : 0, state };
 *       },
 *     };
 *   },
 * });
 */
export function defineEnvironment<
  const S extends SettingSpecs = Record<never, never>,
  const J extends SettingSpecs = Record<never, never>,
  const R extends SettingSpecs = Record<never, never>,
  const A extends Specs = Specs,
  const O extends Specs = Specs,
  Created extends EnvironmentOf<R, A, O> = EnvironmentOf<R, A, O>,
>(
  definition: SingleAgentDefinition<
    S,
    J,
    R,
    A,
    O,
    OnlyNames<Created, keyof SingleAgentEnvironment<A, O>, "an environment"> &
      OnlyResultNames<Created, keyof EnvironmentStep<O>, "an environment's step">
  >,
): WorldDefinition<S, J, R, Record<never, never>, A, WithReward<O>>;
export function defineEnvironment(
  definition: SingleAgentDefinition<SettingSpecs, SettingSpecs, SettingSpecs, Specs, Specs>,
): UntypedWorldDefinition {
  const wrong = unknownName(definition, options, "an environment's definition");
  if (wrong !== undefined) {
    throw new Error(`the environment "${definition.name}": ${wrong}`);
  }
  const { create, createBatch, observations, ...rest } = definition;
  return withSeeds({
    ...rest,
    observations: { ...observations, reward: t.float32() },
    perAgent: true,
    batched: batchOf(create, createBatch),
    create: ({ settings, random }) =>
      worldOf(observations, (joinSettings) => create({ settings, joinSettings, random })),
  });
}

type Values = SettingValues<SettingSpecs>;

function worldOf(
  specs: Specs,
  make: (joinSettings: Values) => Awaitable<UntypedEnvironment>,
): World<object, Values, Partial<Values>, Specs, Specs> {
  let environment: UntypedEnvironment | undefined;
  let latest: EnvironmentStep<Specs> | undefined;
  let changed: Partial<Values> = {};
  let isOver = false;
  let isStepChecked = false;
  const made = (): UntypedEnvironment => {
    if (environment === undefined) {
      throw new Error("no agent has joined");
    }
    return environment;
  };
  const keep = (step: EnvironmentStep<Specs>): void => {
    latest = step;
  };
  const stepped = (step: EnvironmentStep<Specs>): void => {
    if (!isStepChecked) {
      checkStep(step);
      isStepChecked = true;
    }
    keep(step);
  };
  const close = (): Awaitable<void> => {
    const closed = environment;
    environment = undefined;
    return closed?.close?.();
  };
  const observers: Record<string, unknown> = {
    ...observersOf(specs, () => latest?.observation),
    reward: () => latest?.reward ?? 0,
  };
  const world: World<object, Values, Partial<Values>, Specs, Specs> = {
    join: (_agent, joinSettings) =>
      andThen(make(joinSettings), (created) => {
        environment = checkEnvironment(created);
        if (created.validate !== undefined) {
          world.validate = (_agent, action) => created.validate?.(action);
        }
        if (created.picture !== undefined) {
          world.picture = () => created.picture?.() ?? "";
        }
        return isOver ? close() : undefined;
      }),
    destroy() {
      isOver = true;
      return close();
    },
    reset(_agent, settings) {
      changed = { ...changed, ...settings };
    },
    start() {
      const settings = changed;
      // A seed applies to one sequence: later ones continue with the random source.
      const { [seedSetting]: _seed, ...others } = changed;
      changed = others;
      return andThen(made().reset(settings), (observation) => keep({ observation }));
    },
    step(actions) {
      const [action] = actions.values();
      return andThen(made().step(action ?? {}), stepped);
    },
    status: () => latest?.state ?? "running",
    observe: observers as Observers<Specs>,
  };
  return world;
}

/**
 * Returns a function for each observation, nested as the specs are, that returns its latest value.
 */
function observersOf(specs: Specs, latest: () => unknown): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(specs).map(([name, spec]) => {
      const pick = (): unknown => (latest() as Record<string, unknown> | undefined)?.[name];
      const isSpec = typeof spec["dtype"] === "string";
      return [name, isSpec ? (_agent: AgentId) => pick() : observersOf(spec as Specs, pick)];
    }),
  );
}
