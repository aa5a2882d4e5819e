// SPDX-License-Identifier: Apache-2.0
import type {
  DmEnvSpec,
  DmEnvSpecs,
  Scalar,
  Settings,
  Specs,
  Tensor,
} from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { ResponseTo } from "../stream/call.ts";
import type { MessageObserver } from "../stream/pipeline.ts";
import type { WaitOptions } from "../stream/wait.ts";
import type {
  ActionOf,
  DynamicAction,
  DynamicObservation,
  EnvironmentDefinition,
  NameOf,
  ObservationOf,
} from "./definition.ts";
import type { AgentState, StepType, TimeStep } from "./time-step.ts";
import type { AutoresetMode, VectorEnvironment } from "./vector.ts";

/** What a reward or a discount of one's own is made from. */
export interface SignalContext<Observation = DynamicObservation> {
  /** `mid` or `last`: a first step has neither reward nor discount. */
  readonly stepType: StepType;
  readonly state: AgentState;
  /** What was asked for, by name. */
  readonly observation: Observation;
  /** The observation called `reward`, or `discount`; undefined where the server has none. */
  readonly value: Scalar | Tensor | undefined;
}

/** How to join a world. */
export interface JoinOptions<
  A extends Specs = Specs,
  O extends Specs = Specs,
  N extends NameOf<O> = NameOf<O>,
> extends WaitOptions {
  /**
   * The world's definition, or a record of specs: it types the environment and is
   * compared with what the server says. Default: typed by name only.
   */
  readonly as?: EnvironmentDefinition<A, O> | undefined;
  /** Settings of this agent. Packed by the definition's `joinSettings` where it has them. */
  readonly settings?: Settings | undefined;
  /**
   * Names of the observations to ask for; the name of a nesting stands for all in it.
   * `reward` and `discount` are in a time step's observation only when named here.
   * Default: those of `as`; without it all that the server has.
   */
  readonly observations?: readonly N[] | undefined;
  /** Makes the reward. Default: the observation called `reward`, which must be one number; else 0. */
  readonly reward?: ((context: SignalContext) => number) | undefined;
  /** Makes the discount. Default: the observation called `discount`; else 0 on `terminated`, 1 otherwise. */
  readonly discount?: ((context: SignalContext) => number) | undefined;
  /**
   * What a reset that changes the specs does: `refuse` (default) fails it with a
   * TensorError that names both, `accept` goes on with the new specs (behaviour 53).
   */
  readonly changedSpecs?: "refuse" | "accept" | undefined;
  /**
   * Whether tensors of observations are views of the received bytes (`view`, default), views that
   * hold until the next `step` or `reset` is called (`reuse`), or own their memory (`copy`). A view
   * keeps all that came with it alive, up to 64 KiB and more: copy what is kept for long. To `reuse` is
   * the fastest way with large observations, whose memory then serves again; it may also be that of
   * steps that the connection was given to `send`.
   */
  readonly tensors?: "view" | "reuse" | "copy" | undefined;
  /** Whether closing the environment destroys its world too. Default false. */
  readonly destroyOnClose?: boolean | undefined;
}

/** How to join a world that agents share with several seats: N agents, a row each. */
export interface SeatsJoinOptions<
  A extends Specs = Specs,
  O extends Specs = Specs,
  N extends NameOf<O> = NameOf<O>,
> extends Pick<
    JoinOptions<A, O, N>,
    "as" | "settings" | "observations" | "destroyOnClose" | "signal" | "timeoutMs"
  > {
  /** Number of agents. */
  readonly seats: number;
  /** As in VectorizeOptions. Default `fresh`. */
  readonly buffers?: "fresh" | "reuse" | undefined;
}

/** How to join a world as a batch: N environments in slots behind one agent. */
export interface BatchJoinOptions<
  A extends Specs = Specs,
  O extends Specs = Specs,
  N extends NameOf<O> = NameOf<O>,
> extends Pick<
    JoinOptions<A, O, N>,
    "as" | "settings" | "observations" | "destroyOnClose" | "signal" | "timeoutMs"
  > {
  /** Whether closing the vector closes the connection, too. Default false. */
  readonly closeConnection?: boolean | undefined;
  /** Number of slots. */
  readonly batch: number;
  /** Default `next-step`. */
  readonly autoresetMode?: AutoresetMode | undefined;
  /** Slot i is seeded with `seed` + i; or with an element of a list of its own. Default: seeds derived from the world's. */
  readonly seed?: bigint | readonly bigint[] | undefined;
  /** As in VectorizeOptions. Default `fresh`. */
  readonly buffers?: "fresh" | "reuse" | undefined;
}

/** How to reset an environment. */
export interface ResetOptions extends WaitOptions {
  /** Settings of this agent for its next sequences; they may change the specs. */
  readonly settings?: Settings | undefined;
}

/**
 * One agent's view of a world, with the semantics of dm_env: names instead of UIDs,
 * time steps instead of states. What `connection.join` gives.
 *
 * Calls may overlap: requests go out in the order of the calls, and each promise settles in
 * that order. A step that the server answers with an error rejects with a
 * DmEnvRpcError and changes nothing; one whose action does not fit rejects with
 * a TensorError and is not sent; one whose observations do not fit rejects with a TensorError.
 * When the stream is lost, everything outstanding rejects with one DmEnvRpcError.
 */
export interface Environment<Action = DynamicAction, Observation = DynamicObservation>
  extends AsyncDisposable {
  /** Name of the world. */
  readonly world: string;
  /** What it goes through: for properties and extensions, which are answered in order with steps. */
  readonly connection: Connection;
  /** The server's specs, nested as values are: of all actions, and of all observations there are. */
  readonly specs: { readonly actions: Specs; readonly observations: Specs };

  /**
   * Begins a new sequence and returns its first time step. A sequence that is running
   * is cut short for this agent alone.
   *
   * @throws TensorError `spec` when the reset changed the specs and `changedSpecs` is `refuse`.
   */
  reset(options?: ResetOptions): Promise<TimeStep<Observation>>;

  /**
   * Acts, and returns what came of it. On a fresh environment and after a last step
   * it begins a new sequence: then the action is ignored.
   *
   * The action's memory may be reused once the call returns.
   */
  step(action: Action, options?: WaitOptions): Promise<TimeStep<Observation>>;

  /**
   * Steps through all actions, as many in flight as the connection's window allows,
   * across the ends of sequences: an action that comes after a last step is ignored.
   *
   * Actions are taken as there is room for them and must not change until then. The first error rejects;
   * steps that were in flight behind it are still made, later ones are not.
   */
  stepMany(actions: Iterable<Action>, options?: WaitOptions): Promise<TimeStep<Observation>[]>;

  /** The actions as dm_env describes them, nested as they are. */
  actionSpec(): DmEnvSpecs;
  /** The observations asked for, as dm_env describes them, nested as they are. */
  observationSpec(): DmEnvSpecs;
  /** The reward as dm_env describes it: one float64 where the server has no reward observation. */
  rewardSpec(): DmEnvSpec;
  /** The discount as dm_env describes it: one float64 from 0 to 1 where the server has no discount observation. */
  discountSpec(): DmEnvSpec;

  /**
   * Leaves the world, and destroys it where `destroyOnClose` says so; the connection
   * stays. Steps that have no answer yet, such as one that waits for other agents, reject at once with CANCELLED of
   * origin `client`. Idempotent; nothing happens on a connection that is gone. `timeoutMs` is 5,000 by default.
   */
  close(options?: WaitOptions): Promise<void>;
}

/** How to create a world, or to reset one. */
export interface WorldOptions extends WaitOptions {
  /** A definition whose `settings` say how to pack the settings; else dtypes follow from the values. */
  readonly as?: Pick<EnvironmentDefinition, "settings"> | undefined;
  /** Settings of the world. */
  readonly settings?: Settings | undefined;
}

/**
 * One Process stream to a server, and at most one agent in one world.
 *
 * Requests may overlap: they are sent in the order of the calls, up to
 * `maxInFlight` of them before the first is answered, and are answered in that order. What the server answers with an error
 * rejects with a DmEnvRpcError; the stream lives on. When the stream is lost, or the server
 * breaks the protocol, everything outstanding rejects with one DmEnvRpcError.
 */
export interface Connection extends AsyncDisposable {
  /** What the server is called: its address, or a name for a stream without a network. */
  readonly peer: string;

  /**
   * Sends any request of the protocol, raw, and returns the response of its kind.
   *
   * An environment notices resets and leaves that are sent this way, but not steps.
   *
   * @throws DmEnvRpcError of origin `server` when the server answers with an error, `client` when the wait is given
   * up (DEADLINE_EXCEEDED, CANCELLED), `connection` when the stream is lost.
   */
  send<const R extends ProcessRequest>(request: R, options?: WaitOptions): Promise<ResponseTo<R>>;

  /** Creates a world and returns its name (reference.md, "CreateWorldRequest"). */
  createWorld(options?: WorldOptions): Promise<string>;

  /** Destroys a world, which this connection must not be joined to. */
  destroyWorld(world: string, options?: WaitOptions): Promise<void>;

  /**
   * Begins a new sequence for every agent of a world, and waits until each has been told
   * (behaviour 41). One need not be joined to it.
   */
  resetWorld(world: string, options?: WorldOptions): Promise<void>;

  /**
   * Joins a world as an agent. A connection is in one world at a time.
   *
   * With `batch`, as that many environments in slots, which one message steps; with `seats`, as that many agents of a
   * world that is shared. Closing the vector leaves the world.
   *
   * @throws DmEnvRpcError NOT_FOUND for a world that is gone, and what else the server answers.
   * @throws TensorError `spec` when the server's specs are not those of `as`; the agent has left again then.
   */
  join<A extends Specs = Specs, O extends Specs = Specs, const N extends NameOf<O> = never>(
    world: string,
    options: BatchJoinOptions<A, O, N> | SeatsJoinOptions<A, O, N>,
  ): Promise<VectorEnvironment<ActionOf<A>, ObservationOf<O, N>>>;
  /** Joins a world as one agent, as above. */
  join<A extends Specs = Specs, O extends Specs = Specs, const N extends NameOf<O> = never>(
    world: string,
    options?: JoinOptions<A, O, N>,
  ): Promise<Environment<ActionOf<A>, ObservationOf<O, N>>>;

  /** Shows an observer all requests and responses from now on, until the function that it returns is called. */
  observe(observer: MessageObserver): () => void;

  /**
   * Leaves the world, if one is joined (behaviour 29). Steps that have no answer yet, such as one that waits for
   * other agents, reject at once with CANCELLED of origin `client`.
   */
  leave(options?: WaitOptions): Promise<void>;

  /**
   * Takes no more requests, waits for the answers to all made so far, then closes.
   * Given up by its options it rejects, and goes on draining.
   */
  drain(options?: WaitOptions): Promise<void>;

  /**
   * Ends the requests, waits up to `timeoutMs` for the answers to those in
   * flight, then ends the stream whatever is open. The agent leaves its world. Requests that wait for room are
   * rejected. Idempotent, and never rejects. Default `timeoutMs`: 2,000.
   */
  close(options?: { readonly timeoutMs?: number | undefined }): Promise<void>;

  /** Settles when the stream is gone, however that came about; with the error where it was lost. */
  readonly closed: Promise<Error | undefined>;
}
