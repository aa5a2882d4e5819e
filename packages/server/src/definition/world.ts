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

/** An action that every step must give; without it, a step may leave it out. */
export type RequiredAction<T extends TensorSpec> = T & { readonly required: true };

/** Makes an action one that every step must give (reference.md, "StepRequest"). */
export function required<const T extends TensorSpec>(spec: T): RequiredAction<T> {
  return { ...spec, required: true };
}

/** Specs as a definition gives them: of alternatives, the compiler adds to each the names of the others. */
export interface GivenSpecs {
  readonly [name: string]: TensorSpec | GivenSpecs | undefined;
}

/** Each alternative of given specs with its own names alone. */
export type SpecsOf<T extends GivenSpecs> = T extends Specs
  ? T
  : { readonly [K in keyof T as T[K] extends undefined ? never : K]: OwnSpecs<T[K]> };

type OwnSpecs<T> = T extends TensorSpec ? T : T extends GivenSpecs ? SpecsOf<T> : never;

/**
 * Specs with the names of every alternative, where agents have different ones
 * (`join.role === "scout" ? scoutSpecs : minerSpecs`); a single record stays as it is.
 */
export type MergedSpecs<T extends GivenSpecs> =
  true extends IsUnion<T>
    ? { readonly [K in NameIn<T>]: Merged<SpecIn<T, K>> }
    : { readonly [K in keyof T]: Merged<T[K]> };

type Merged<T> = [T] extends [TensorSpec] ? T : [T] extends [GivenSpecs] ? MergedSpecs<T> : never;

type IsUnion<T, All = T> = T extends unknown ? ([All] extends [T] ? false : true) : never;

type NameIn<T> = T extends unknown ? keyof T : never;

/** What the alternatives that have a name have under it. */
type SpecIn<T, K> = T extends unknown
  ? K extends keyof T
    ? Exclude<T[K], undefined>
    : never
  : never;

/** The actions of an agent in one tick: those that it gave. */
export type ActionsOf<A extends Specs> = {
  readonly [K in keyof A]?: Required<A>[K] extends TensorSpec
    ? ValueOf<Required<A>[K]>
    : Required<A>[K] extends Specs
      ? Partial<ValuesOf<Required<A>[K]>>
      : never;
};

/** How each observation is made, each called only when an agent asks for it. */
export type Observers<O extends Specs> = {
  readonly [K in keyof O]: O[K] extends TensorSpec
    ? (agent: AgentId) => PackableOf<O[K]>
    : O[K] extends Specs
      ? Observers<O[K]>
      : never;
};

/** A picture of a world: pixels of shape [height, width, 3 or 4], or the text of an SVG. */
export type Picture = Tensor<"uint8"> | string;

/** What a new sequence begins with. */
export interface SequenceStart<Settings> {
  /** The settings of the world, with what a reset of the world changed since. */
  readonly settings: Settings;
  /** The agents of the sequence, in the order in which they joined. */
  readonly agents: readonly AgentId[];
  /** The world's random source, the one that `create` received; a reset of the world with a `seed` seeds it anew. */
  readonly random: SeededRandom;
  /** True if `random` has been seeded anew since the last sequence began. */
  readonly isReseeded: boolean;
}

/**
 * A world: the simulation that agents share. Plain state and these functions;
 * it sees no connection, UID or protobuf message. They are called one at a time.
 * Those that are `Awaitable` may return a promise; the others are done when they return.
 *
 * A function that throws, a promise that rejects or takes too long, or one where none may
 * be, ends the world: `destroy` is called, its agents are told, other worlds never notice.
 */
export interface World<Settings, JoinSettings, ResetSettings, A extends Specs, O extends Specs> {
  /** An agent joins; it is not in a sequence yet. Throwing a DmEnvRpcError or a TensorError here refuses it. */
  join?(agent: AgentId, settings: JoinSettings): Awaitable<void>;
  /** An agent is gone for good. */
  leave?(agent: AgentId): void;
  /** A new sequence begins, with these agents in it. */
  start?(start: SequenceStart<Settings>): Awaitable<void>;
  /** An agent enters a sequence that others are in. Throwing as in `join` refuses its step. */
  enter?(agent: AgentId): void;
  /** An agent that had been reset is out of the sequence that others go on with. */
  exit?(agent: AgentId): void;
  /** An agent was reset with settings, for its next sequence. Throwing as in `join` refuses them. */
  reset?(agent: AgentId, settings: ResetSettings): void;
  /**
   * Checks the actions of an agent's step when it arrives, before anything happens: throwing a DmEnvRpcError or a
   * TensorError refuses the step, of which nobody else notices. The agent is answered with the error and may step
   * again; its deadline runs on. Called for steps with no actions, too, and again for actions that wait while
   * the world moves on or that a missed deadline repeats, which are left out if they are refused then: `step` is never
   * given actions that are refused. Not called for the first step of a sequence, whose actions are ignored.
   *
   * On the clock `realtime` it is given all actions that would be in force with those of the step, and not called for a
   * step without any. Actions in force that it refuses at a tick are left out of that tick, without an error for the
   * agent until it steps with actions again: show in the observations what such rules depend on.
   */
  validate?(agent: AgentId, actions: ActionsOf<A>): void;
  /** One tick. Agents that have nothing to do in it are not in the map; actions that were not given are not in the record. */
  step(actions: ReadonlyMap<AgentId, ActionsOf<A>>): Awaitable<void>;
  /** The observations after the last tick. */
  readonly observe: Observers<O>;
  /**
   * The agents that the last tick may have changed something for: only their `reward` and
   * `status` are asked. Default: everybody. So a tick of a world with many agents that moves
   * one of them (`freeRunning`) takes the time of that one.
   */
  affected?(): Iterable<AgentId>;
  /** Where the sequence of an agent stands after the last tick; without it, it never ends. */
  status?(agent: AgentId): SequenceState;
  /**
   * What the world looks like after the last tick, for spectators: pixels of shape [height, width, 3] or
   * [height, width, 4] and dtype uint8, or the text of an SVG. Called only while somebody watches, 30 times a second at
   * most, and not before the first sequence. If it throws, its spectators get the error and the world goes on.
   * Default: the observations of an agent.
   */
  picture?(): Picture;
  /** Properties for the agents that have joined, beside those that every world has under `world`. */
  readonly properties?: PropertyTree | undefined;
  /** Extension messages of the agents that have joined. */
  readonly extensions?: readonly Extension[] | undefined;
  /** Whose turn it is, of the RUNNING agents in the order of joining; only the clock `turns` asks. Default: one after the other. */
  turn?(agents: readonly AgentId[], previous: AgentId | undefined): AgentId;
  /**
   * The world is over, because it was destroyed or has failed: then its last call may not have come to an end.
   * Called once. Nobody waits for its promise; what it rejects with is told by the event `world-failed`.
   */
  destroy?(): Awaitable<void>;
}

/** How many agents a world has room for. */
export interface AgentCounts {
  /** The first sequence begins when as many have joined. Default 1. */
  readonly min?: number | undefined;
  /** Past it a join is refused with RESOURCE_EXHAUSTED. Default 1,000. */
  readonly max?: number | undefined;
}

/** What specs that depend on settings are made from. */
export interface SpecSettings<
  S extends SettingSpecs,
  J extends SettingSpecs,
  R extends SettingSpecs,
> {
  readonly create: SettingValues<S>;
  /** Those of the agent, with what its resets changed since. */
  readonly join: SettingValues<J> & Partial<SettingValues<R>>;
}

/** A value, or how it is made from settings. (A method's type, so that a definition fits where its settings are not known.) */
export type FromSettings<T, Settings> =
  | T
  | {
      /** Makes the value. */
      make(settings: Settings): T;
    }["make"];

/** What a world is made from. */
export interface WorldContext<Settings> {
  readonly settings: Settings;
  /** Seeded by the setting `seed` of the create, else at random; the same object for as long as the world lives. */
  readonly random: SeededRandom;
}

/** What happens to the others when an agent leaves. */
export type LeavePolicy = "continue" | "block" | "terminate";

/**
 * How long the seat of an agent is held whose stream was lost: its next join with the same join token, or the same
 * `seat_key`, takes it again, and the world notices nothing but that the agent did not step.
 */
export interface DropPolicy {
  /** Milliseconds; then the agent leaves. */
  readonly holdMs: number;
  /**
   * Meanwhile the world goes on without the agent, which is out of the sequence (`continue`, default); it waits for it
   * (`block`); or the sequence of all is cut short, INTERRUPTED (`terminate`), and the next one does not wait for it.
   */
  readonly policy?: LeavePolicy | undefined;
}

/** What happens when a world is destroyed with agents in it. */
export type DestroyPolicy = "refuse" | "drain" | "force";

/** A kind of world but for how one is created: its specs, its time and its policies. */
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
  /** The author's version of it, for clients to record (behaviour 59). */
  readonly version?: string | undefined;
  /**
   * Settings of a create. Like a reset of the world it also takes an optional uint64 `seed`, unless
   * another is declared here: it seeds `random`.
   */
  readonly settings?: S | undefined;
  /** Settings of a join. */
  readonly joinSettings?: J | undefined;
  /** Settings of an agent's reset, all optional in the request. */
  readonly resetSettings?: R | undefined;
  /** Settings of a reset of the world, all optional in the request; they replace those of the create. */
  readonly resetWorldSettings?: W | undefined;
  /**
   * What an agent can do; a function where it depends on the settings. Then `create` takes its parameter,
   * used or not: without one, the compiler infers no specs from functions.
   */
  readonly actions: FromSettings<A, SpecSettings<S, J, R>>;
  /** What an agent can see; a function where it depends on the settings. `reward` adds up between responses. */
  readonly observations: FromSettings<O, SpecSettings<S, J, R>>;
  /**
   * Each agent that joins has a world of its own, made with the settings of the
   * create and a seed of its own; `agents.min` means nothing then. A join and a reset of
   * the agent take a `seed`, too. Default false.
   */
  readonly perAgent?: boolean | undefined;
  /** When the world advances and who is answered. Default `lockstep()`. */
  readonly clock?: Clock | undefined;
  readonly agents?: FromSettings<AgentCounts, SettingValues<S>> | undefined;
  /** The keys that people play with on the server's page. Default: a button for each value of a discrete action. */
  readonly controls?: Controls | undefined;
  /**
   * When an agent leaves the others `continue` (default); `block` until another
   * has joined; or their sequence is cut short, INTERRUPTED (`terminate`).
   */
  readonly onLeave?: LeavePolicy | undefined;
  /**
   * When the stream of an agent is lost that joined with a join token or the setting `seat_key`, its seat is held for it.
   * Default: it leaves at once.
   */
  readonly onDrop?: DropPolicy | undefined;
  /**
   * A RUNNING agent's reset takes it out of the sequence at once (`respawn`,
   * default), or is answered when the sequence of the others is over (`wait`).
   */
  readonly onReset?: "respawn" | "wait" | undefined;
  /** An agent whose first step comes while others are in a sequence enters `now` (default), or with the `next-sequence`. */
  readonly lateEntry?: "now" | "next-sequence" | undefined;
  /**
   * A destroy with agents joined is refused (`refuse`, default), waits for them to
   * leave (`drain`, forced after `drainDeadlineMs`), or makes their next requests errors (`force`).
   */
  readonly onDestroy?: DestroyPolicy | undefined;
  /** Default 30,000. */
  readonly drainDeadlineMs?: number | undefined;
  /**
   * Milliseconds that a reset of the world (ResetWorldRequest) waits for its agents to step and learn of it
   * before it begins the next sequence without them. Default 10,000.
   */
  readonly resetDeadlineMs?: number | undefined;
}

/** A kind of world: its specs, its time, and how one is created. */
export interface WorldDefinition<
  S extends SettingSpecs = SettingSpecs,
  J extends SettingSpecs = SettingSpecs,
  R extends SettingSpecs = SettingSpecs,
  W extends SettingSpecs = SettingSpecs,
  A extends Specs = Specs,
  O extends Specs = Specs,
> extends WorldRules<S, J, R, W, A, O> {
  /**
   * Makes a world. An object literal has the hooks of a world and no other names, and a class
   * keeps its other members private: a misspelled hook would never be called.
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
   * Makes the world of an agent that joins it as a batch, with the join setting `batch` (docs/protocol-notes.md,
   * "Batches"). `defineEnvironment` gives it; it means nothing without `perAgent`.
   */
  batched?(
    definition: UntypedWorldDefinition,
    request: BatchRequest,
    host: BatchHost,
  ): BatchedWorld;
}

/** A kind of world as one agent's batch: what differs from the world of one. */
export interface BatchedWorld
  extends Pick<UntypedWorldDefinition, "actions" | "observations" | "resetSettings"> {
  /** True if it checks its observations against the bounds of their specs by itself. */
  readonly checksObservations: boolean;
  /** Makes the world of one batch. */
  create(context: WorldContext<SettingValues<SettingSpecs>>): Awaitable<UntypedWorld>;
}

/**
 * Defines a kind of world. The specs are the types of everything else: nothing
 * needs a generic or a cast.
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
    // Without W, which adds nothing, the compiler has not inferred A and O yet where they are functions.
    // Without a constraint on Created, TypeScript 5 takes the promise of an async create for it.
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

/** The world that a definition creates: its hooks serve agents with any alternative of the specs. */
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

/** A definition whose specs are not known by type, as a server holds it. */
export type UntypedWorldDefinition = WorldDefinition;

/** A world whose specs are not known by type, as a server holds it. */
export type UntypedWorld = World<
  Readonly<Record<string, unknown>>,
  Readonly<Record<string, unknown>>,
  Readonly<Record<string, unknown>>,
  Specs,
  Specs
>;
