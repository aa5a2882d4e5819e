// SPDX-License-Identifier: Apache-2.0
import type {
  PackableOf,
  Specs,
  Tensor,
  TensorSpec,
  ValueOf,
  ValuesOf,
} from "@dm-env-rpc/tensor-codec";
import type { AgentId, SequenceState } from "./agent.ts";
import type { Awaitable } from "./awaitable.ts";
import type { BatchHost, BatchRequest } from "./batch/request.ts";
import type { Clock } from "./clock.ts";
import type { Controls } from "./controls.ts";
import type { Extension } from "./extension.ts";
import type { OnlyNames } from "./names.ts";
import type { PropertyTree } from "./property.ts";
import type { SeededRandom } from "./random.ts";
import { withSeeds } from "./seed.ts";
import type { SettingSpecs, SettingValues } from "./settings.ts";

/** An action that every step must have; other actions may be omitted. */
export type RequiredAction<T extends TensorSpec> = T & { readonly required: true };

/** Makes an action required in every step (reference.md, "StepRequest"). */
export function required<const T extends TensorSpec>(spec: T): RequiredAction<T> {
  return { ...spec, required: true };
}

/**
 * Specs as inferred from a definition. If they are a union of alternatives, the compiler adds the
 * names of the other alternatives to each, as optional properties of type undefined.
 */
export interface GivenSpecs {
  readonly [name: string]: TensorSpec | GivenSpecs | undefined;
}

/** Specs without the names that the compiler added from other alternatives. */
export type SpecsOf<T extends GivenSpecs> = T extends Specs
  ? T
  : { readonly [K in keyof T as T[K] extends undefined ? never : K]: OwnSpecs<T[K]> };

type OwnSpecs<T> = T extends TensorSpec ? T : T extends GivenSpecs ? SpecsOf<T> : never;

/**
 * Specs with the names of all alternatives, for agents with different specs (`join.role === "scout"
 * ? scoutSpecs : minerSpecs`); a single record is unchanged.
 */
export type MergedSpecs<T extends GivenSpecs> =
  true extends IsUnion<T>
    ? { readonly [K in NameIn<T>]: Merged<SpecIn<T, K>> }
    : { readonly [K in keyof T]: Merged<T[K]> };

type Merged<T> = [T] extends [TensorSpec] ? T : [T] extends [GivenSpecs] ? MergedSpecs<T> : never;

type IsUnion<T, All = T> = T extends unknown ? ([All] extends [T] ? false : true) : never;

type NameIn<T> = T extends unknown ? keyof T : never;

/** Type of a name in the alternatives that have it. */
type SpecIn<T, K> = T extends unknown
  ? K extends keyof T
    ? Exclude<T[K], undefined>
    : never
  : never;

/** The given actions of an agent in one tick. */
export type ActionsOf<A extends Specs> = {
  readonly [K in keyof A]?: Required<A>[K] extends TensorSpec
    ? ValueOf<Required<A>[K]>
    : Required<A>[K] extends Specs
      ? Partial<ValuesOf<Required<A>[K]>>
      : never;
};

/**
 * Functions that compute each observation, called when an agent requests it, when the end of its
 * sequence is stored until its next step, and when it is shown to spectators. `reward` is also
 * called for ticks without a response to the agent, because it adds up between responses.
 */
export type Observers<O extends Specs> = {
  readonly [K in keyof O]: O[K] extends TensorSpec
    ? (agent: AgentId) => PackableOf<O[K]>
    : O[K] extends Specs
      ? Observers<O[K]>
      : never;
};

/** A picture of a world: pixels of shape [height, width, 3 or 4], or the text of an SVG. */
export type Picture = Tensor<"uint8"> | string;

/** Start of a new sequence. */
export interface SequenceStart<Settings> {
  /** Settings of the world, with the changes of its resets. */
  readonly settings: Settings;
  /** The agents of the sequence, in the order in which they joined. */
  readonly agents: readonly AgentId[];
  /**
   * The world's random source, the one that `create` received; a reset of the world with a `seed`
   * reseeds it.
   */
  readonly random: SeededRandom;
  /** True if `random` was reseeded since the last sequence began. */
  readonly isReseeded: boolean;
}

/**
 * A world: the simulation that agents share. A world is plain state and these functions, and does
 * not depend on connections, UIDs or protobuf messages. The functions are called one at a time.
 * Functions that return an `Awaitable` may return a promise; the others must be synchronous.
 *
 * Unless documented otherwise, the world ends if a function throws, if its promise rejects or takes
 * too long, or if a synchronous function returns a promise: `destroy` is called and the agents
 * receive the error. Other worlds are not affected.
 */
export interface World<Settings, JoinSettings, ResetSettings, A extends Specs, O extends Specs> {
  /**
   * An agent joins; it is not in a sequence yet. Throwing a DmEnvRpcError or a TensorError refuses
   * the join.
   */
  join?(agent: AgentId, settings: JoinSettings): Awaitable<void>;
  /** An agent has left for good. */
  leave?(agent: AgentId): void;
  /** A new sequence begins, with these agents in it. */
  start?(start: SequenceStart<Settings>): Awaitable<void>;
  /** An agent enters a sequence that others are in. Throwing as in `join` refuses its step. */
  enter?(agent: AgentId): void;
  /**
   * An agent is taken out of a sequence that others continue: it was reset (not with `onReset: "wait"`), or its
   * connection was lost and its seat is held (`onDrop`, except with the policy `block`).
   */
  exit?(agent: AgentId): void;
  /**
   * An agent was reset with settings for its next sequence. Throwing as in `join` refuses the
   * reset.
   */
  reset?(agent: AgentId, settings: ResetSettings): void;
  /**
   * Validates the actions of an agent's step when it arrives, before anything happens: throwing a
   * DmEnvRpcError or a TensorError refuses the step, without any effect on other agents. The agent
   * receives the error and may step again; its deadline keeps running. Also called for steps
   * without actions. It is called again before a tick for actions that waited while the world
   * advanced, and for actions that a missed deadline repeats; actions that it refuses then are
   * dropped. `step` never receives refused actions. Not called for the first step of a sequence,
   * whose actions are ignored.
   *
   * On the clock `realtime` it receives all actions that would be in force after the step, and is
   * not called for a step without actions. Actions in force that it refuses at a tick are omitted
   * from that tick. The agent receives an error only when it next steps with actions, so let the
   * observations show what your rules depend on.
   */
  validate?(agent: AgentId, actions: ActionsOf<A>): void;
  /**
   * Advances the world by one tick. Agents without actions in it are not in the map; omitted
   * actions are not in the record.
   */
  step(actions: ReadonlyMap<AgentId, ActionsOf<A>>): Awaitable<void>;
  /** The observations after the last tick. */
  readonly observe: Observers<O>;
  /**
   * Returns the agents that the last tick may have affected: only their `reward` and `status` are
   * read. Default: all agents. With it, the cost of a tick depends on the number of affected agents
   * instead of all agents, which matters on `freeRunning`.
   */
  affected?(): Iterable<AgentId>;
  /**
   * Returns the state of an agent's sequence after the last tick. Default: `running`, so sequences
   * never end.
   */
  status?(agent: AgentId): SequenceState;
  /**
   * Draws the world after the last tick for spectators: pixels of shape [height, width, 3] or
   * [height, width, 4] and dtype uint8, or the text of an SVG. Called at most 30 times a second,
   * while a viewer watches and after the first sequence has begun. If it throws, the spectators
   * receive the error and the world continues. Default: the observations of an agent.
   */
  picture?(): Picture;
  /** Properties for the agents that have joined, in addition to the built-in ones under `world`. */
  readonly properties?: PropertyTree | undefined;
  /** Extension messages of the agents that have joined. */
  readonly extensions?: readonly Extension[] | undefined;
  /**
   * Returns the agent whose turn it is, among the RUNNING agents in the order of joining; only the
   * clock `turns` calls it. Default: one after the other.
   */
  turn?(agents: readonly AgentId[], previous: AgentId | undefined): AgentId;
  /**
   * Called once, when the world was destroyed or has failed. If it failed or was destroyed by
   * force, an earlier call may still be pending. The promise of `destroy` is not awaited; the event
   * `world-failed` reports its error.
   */
  destroy?(): Awaitable<void>;
}

/** Least and greatest number of agents in a world. */
export interface AgentCounts {
  /** Number of joined agents at which the first sequence begins. Default 1. */
  readonly min?: number | undefined;
  /** Maximum number of agents; further joins are refused with RESOURCE_EXHAUSTED. Default 1,000. */
  readonly max?: number | undefined;
}

/** Settings that specs may depend on. */
export interface SpecSettings<
  S extends SettingSpecs,
  J extends SettingSpecs,
  R extends SettingSpecs,
> {
  readonly create: SettingValues<S>;
  /** Settings of the agent, with the changes of its resets. */
  readonly join: SettingValues<J> & Partial<SettingValues<R>>;
}

/**
 * A value, or a function that computes it from settings. (Declared as a method so that its
 * parameter is bivariant: a typed definition remains assignable to `UntypedWorldDefinition`.)
 */
export type FromSettings<T, Settings> =
  | T
  | {
      /** Computes the value. */
      make(settings: Settings): T;
    }["make"];

/** Context of a new world. */
export interface WorldContext<Settings> {
  readonly settings: Settings;
  /**
   * Seeded by the setting `seed` of the create, otherwise at random; the same object for the life
   * of the world.
   */
  readonly random: SeededRandom;
}

/** Policy for the other agents when one leaves. */
export type LeavePolicy = "continue" | "block" | "terminate";

/**
 * Policy for the seat of an agent whose stream is lost: its next join with the same join token, or
 * the same `seat_key`, resumes the seat, and the world notices only that the agent did not step.
 */
export interface DropPolicy {
  /** Milliseconds until the agent leaves. */
  readonly holdMs: number;
  /**
   * While the seat is held, the agent is out of the sequence and the world continues without it
   * (`continue`, default); the world waits for the agent (`block`); or the sequence of all agents
   * is cut short, INTERRUPTED (`terminate`), and the next sequence does not wait for the agent.
   */
  readonly policy?: LeavePolicy | undefined;
}

/** Policy for destroying a world with agents in it. */
export type DestroyPolicy = "refuse" | "drain" | "force";

/** Everything about a kind of world except its creation: its specs, its clock and its policies. */
export interface WorldRules<
  S extends SettingSpecs = SettingSpecs,
  J extends SettingSpecs = SettingSpecs,
  R extends SettingSpecs = SettingSpecs,
  W extends SettingSpecs = SettingSpecs,
  A extends GivenSpecs = Specs,
  O extends GivenSpecs = Specs,
> {
  /** Unique among the worlds of a server. */
  readonly name: string;
  /** For people. */
  readonly description?: string | undefined;
  /** The author's version of the world, for clients to record (behaviour 59). */
  readonly version?: string | undefined;
  /**
   * Settings of a create. Unless a setting `seed` is declared here, a create and a reset of the
   * world also accept an optional uint64 `seed`, which seeds `random`.
   */
  readonly settings?: S | undefined;
  /** Settings of a join. */
  readonly joinSettings?: J | undefined;
  /** Settings of an agent's reset, all optional in the request. */
  readonly resetSettings?: R | undefined;
  /**
   * Settings of a reset of the world, all optional in the request; they replace the settings of the
   * create.
   */
  readonly resetWorldSettings?: W | undefined;
  /**
   * Actions of an agent; a function if they depend on the settings. In that case `create` must
   * declare its parameter, even if it is unused: otherwise the compiler infers no specs from
   * functions.
   */
  readonly actions: FromSettings<A, SpecSettings<S, J, R>>;
  /**
   * Observations of an agent; a function if they depend on the settings. `reward` adds up between
   * responses.
   */
  readonly observations: FromSettings<O, SpecSettings<S, J, R>>;
  /**
   * True if each agent that joins has a world of its own, created with the settings of the create
   * and a separate seed; `agents.min` has no effect then. A join and a reset of the agent also
   * accept a `seed`. Default false.
   */
  readonly perAgent?: boolean | undefined;
  /** Decides when the world advances and which steps are answered. Default `lockstep()`. */
  readonly clock?: Clock | undefined;
  readonly agents?: FromSettings<AgentCounts, SettingValues<S>> | undefined;
  /**
   * Keys for people on the server's page. Default: a button for each value of a discrete action.
   */
  readonly controls?: Controls | undefined;
  /**
   * Policy for the others when an agent leaves: they `continue` (default); `block` until another
   * has joined; or their sequence is cut short, INTERRUPTED (`terminate`).
   */
  readonly onLeave?: LeavePolicy | undefined;
  /**
   * Policy for the seat of an agent that joined with a join token or the setting `seat_key`, when
   * its stream is lost. Default: it leaves at once.
   */
  readonly onDrop?: DropPolicy | undefined;
  /**
   * A RUNNING agent's reset takes it out of the sequence at once. It is answered at once (`respawn`, default), or when
   * the sequence of the others is over (`wait`).
   */
  readonly onReset?: "respawn" | "wait" | undefined;
  /**
   * An agent whose first step arrives while others are in a sequence enters `now` (default), or
   * with the `next-sequence`.
   */
  readonly lateEntry?: "now" | "next-sequence" | undefined;
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
}

/** A kind of world: its specs, its clock, and how a world is created. */
export interface WorldDefinition<
  S extends SettingSpecs = SettingSpecs,
  J extends SettingSpecs = SettingSpecs,
  R extends SettingSpecs = SettingSpecs,
  W extends SettingSpecs = SettingSpecs,
  A extends Specs = Specs,
  O extends Specs = Specs,
> extends WorldRules<S, J, R, W, A, O> {
  /**
   * Creates a world. An object literal may have only the hooks of a world, and a class must make
   * its other members private, because a misspelled hook would never be called.
   */
  create(
    context: WorldContext<SettingValues<S>>,
  ): Awaitable<
    World<
      SettingValues<S> & Partial<SettingValues<W>>,
      SettingValues<J>,
      Partial<SettingValues<R>>,
      A,
      O
    >
  >;
  /**
   * Returns the definition of the world of one agent that joins as a batch, with the join setting
   * `batch` (docs/protocol-notes.md, "Batches"). Set by `defineEnvironment`; without effect unless
   * `perAgent` is true.
   */
  batched?(
    definition: UntypedWorldDefinition,
    request: BatchRequest,
    host: BatchHost,
  ): BatchedWorld;
}

/**
 * The properties of a definition that are replaced for an agent that joins as a batch.
 */
export interface BatchedWorld
  extends Pick<UntypedWorldDefinition, "actions" | "observations" | "resetSettings"> {
  /** True if the batch itself checks its observations against the bounds of their specs. */
  readonly checksObservations: boolean;
  /** Creates the world of one batch. */
  create(context: WorldContext<SettingValues<SettingSpecs>>): Awaitable<UntypedWorld>;
}

/**
 * Defines a kind of world. All other types follow from the specs, without generics or casts.
 *
 * @example
 * const counter = defineWorld({
 *   name: "counter",
 *   actions: { add: t.discrete(10) },
 *   observations: { total: t.int32() },
 *   create() {
 *     let total = 0;
 *     return {
 *       step(actions) {
 *         for (const { add = 0 } of actions.values()) {
 *           total += add;
 *         }
 *       },
 *       status: () => (total >= 100 ? "terminated" : "running"),
 *       observe: { total: () => total },
 *     };
 *   },
 * });
 */
export function defineWorld<
  const S extends SettingSpecs = Record<never, never>,
  const J extends SettingSpecs = Record<never, never>,
  const R extends SettingSpecs = Record<never, never>,
  const W extends SettingSpecs = Record<never, never>,
  const A extends GivenSpecs = Specs,
  const O extends GivenSpecs = Specs,
  Created extends { readonly observe: unknown } = { readonly observe: unknown },
>(
  definition: WorldRules<S, J, R, W, A, O> & {
    // Without W, which adds nothing, the compiler would not infer A and O from functions. Without a
    // constraint on Created, TypeScript 5 infers the promise of an async `create` as Created.
    create(
      context: WorldContext<SettingValues<S>> & Record<never, W>,
    ): Awaitable<
      NoInfer<DefinedWorld<S, J, R, W, A, O>> & OnlyNames<Created, keyof UntypedWorld, "a world">
    >;
  },
): WorldDefinition<S, J, R, W, SpecsOf<A>, SpecsOf<O>>;
export function defineWorld(definition: UntypedWorldDefinition): UntypedWorldDefinition {
  return withSeeds(definition);
}

/**
 * The world that a definition creates. Its hooks accept agents with any alternative of the specs.
 */
export type DefinedWorld<
  S extends SettingSpecs,
  J extends SettingSpecs,
  R extends SettingSpecs,
  W extends SettingSpecs,
  A extends GivenSpecs,
  O extends GivenSpecs,
> = World<
  SettingValues<S> & Partial<SettingValues<W>>,
  SettingValues<J>,
  Partial<SettingValues<R>>,
  MergedSpecs<A>,
  MergedSpecs<O>
>;

/** A definition whose specs are not known at compile time, as a server stores it. */
export type UntypedWorldDefinition = WorldDefinition;

/** A world whose specs are not known at compile time, as a server stores it. */
export type UntypedWorld = World<
  Readonly<Record<string, unknown>>,
  Readonly<Record<string, unknown>>,
  Readonly<Record<string, unknown>>,
  Specs,
  Specs
>;
