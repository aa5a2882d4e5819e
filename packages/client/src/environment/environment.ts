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

/** Input of a custom reward or discount function. */
export interface SignalContext<Observation = DynamicObservation> {
  /** `mid` or `last`: a first step has neither reward nor discount. */
  readonly stepType: StepType;
  readonly state: AgentState;
  /** Requested observations, by name. */
  readonly observation: Observation;
  /** The observation `reward` or `discount`; undefined if the server has none. */
  readonly value: Scalar | Tensor | undefined;
}

/** Options of `connection.join` for one agent. */
export interface JoinOptions<
  A extends Specs = Specs,
  O extends Specs = Specs,
  N extends NameOf<O> = NameOf<O>,
> extends WaitOptions {
  /**
   * The world's definition, or a record of specs: it types the environment and is compared with the
   * server's specs. Default: actions and observations are untyped.
   */
  readonly as?: EnvironmentDefinition<A, O> | undefined;
  /** Settings of this agent, packed by the definition's `joinSettings` if it has them. */
  readonly settings?: Settings | undefined;
  /**
   * Names of the observations to request; the name of a group includes everything in it. `reward`
   * and `discount` are in a time step's observation only if named here. Default: the observations of
   * `as`, or all of the server's observations.
   */
  readonly observations?: readonly N[] | undefined;
  /**
   * Computes the reward. Default: the observation `reward`, which must be a single number, or 0 if
   * the server has none.
   */
  readonly reward?: ((context: SignalContext) => number) | undefined;
  /**
   * Computes the discount. Default: the observation `discount`, or, if the server has none, 0 on
   * `terminated` and 1 on other steps.
   */
  readonly discount?: ((context: SignalContext) => number) | undefined;
  /**
   * Policy for a reset that changes the specs: `refuse` (default) rejects with a TensorError that
   * names the old and the new spec, `accept` continues with the new specs (behaviour 53).
   */
  readonly changedSpecs?: "refuse" | "accept" | undefined;
  /**
   * Memory of observed tensors: views of the received bytes (`view`, default), views that are valid
   * until the next `step` or `reset` (`reuse`), or copies (`copy`). A view keeps alive everything
   * that arrived with it, 64 KiB or more: copy tensors that you keep for long. `reuse` is the fastest
   * for large observations, because the next response overwrites their memory. This applies to the
   * responses of `connection.send`, too.
   */
  readonly tensors?: "view" | "reuse" | "copy" | undefined;
  /** Also destroys the world when the environment is closed. Default false. */
  readonly destroyOnClose?: boolean | undefined;
}

/** Options of joining a shared world with several seats: N agents with one row each. */
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
  /** See `buffers` of VectorizeOptions. Default `fresh`. */
  readonly buffers?: "fresh" | "reuse" | undefined;
}

/** Options of joining a world as a batch: N environments in the slots of one agent. */
export interface BatchJoinOptions<
  A extends Specs = Specs,
  O extends Specs = Specs,
  N extends NameOf<O> = NameOf<O>,
> extends Pick<
    JoinOptions<A, O, N>,
    "as" | "settings" | "observations" | "destroyOnClose" | "signal" | "timeoutMs"
  > {
  /** Also closes the connection when the vector is closed. Default false. */
  readonly closeConnection?: boolean | undefined;
  /** Number of slots. */
  readonly batch: number;
  /** Default `next-step`. */
  readonly autoresetMode?: AutoresetMode | undefined;
  /**
   * Slot i is seeded with `seed` + i, or with element i of a list. Default: seeds derived from the
   * world's.
   */
  readonly seed?: bigint | readonly bigint[] | undefined;
  /** See `buffers` of VectorizeOptions. Default `fresh`. */
  readonly buffers?: "fresh" | "reuse" | undefined;
}

/** Options of `environment.reset`. */
export interface ResetOptions extends WaitOptions {
  /** Settings of this agent for its next sequences; they may change the specs. */
  readonly settings?: Settings | undefined;
}

/**
 * One agent's view of a world, with the semantics of dm_env: names instead of UIDs, time steps
 * instead of states. `connection.join` returns it.
 *
 * Calls may overlap: requests are sent, and promises settle, in the order of the calls. A step that
 * the server refuses rejects with a DmEnvRpcError and changes nothing. A step whose action does not
 * fit rejects with a TensorError and is not sent; a step whose observations do not fit rejects with
 * a TensorError. When the stream is lost, all outstanding calls reject with one DmEnvRpcError.
 */
export interface Environment<Action = DynamicAction, Observation = DynamicObservation>
  extends AsyncDisposable {
  /** Name of the world. */
  readonly world: string;
  /**
   * Connection of the environment, for properties and extensions. Their responses and those of steps
   * arrive in the order of the requests.
   */
  readonly connection: Connection;
  /** The server's specs of all actions and observations, nested like their values. */
  readonly specs: { readonly actions: Specs; readonly observations: Specs };

  /**
   * Begins a new sequence and returns its first time step. A running sequence is cut short for this
   * agent only.
   *
   * @throws TensorError `spec` if the reset changed the specs and `changedSpecs` is `refuse`.
   */
  reset(options?: ResetOptions): Promise<TimeStep<Observation>>;

  /**
   * Steps with an action and returns the time step. On a fresh environment and after a last step it
   * begins a new sequence and ignores the action.
   *
   * The action's memory may be reused once the call returns.
   */
  step(action: Action, options?: WaitOptions): Promise<TimeStep<Observation>>;

  /**
   * Steps through all actions, with as many in flight as the connection's window allows, across the
   * ends of sequences: an action after a last step is ignored.
   *
   * An action is read when the window has room for it, and must not change before. The first error
   * rejects the call; steps that are already in flight still take effect, and no more are sent.
   */
  stepMany(actions: Iterable<Action>, options?: WaitOptions): Promise<TimeStep<Observation>[]>;

  /** Specs of the actions as dm_env describes them, nested like their values. */
  actionSpec(): DmEnvSpecs;
  /** Specs of the requested observations as dm_env describes them, nested like their values. */
  observationSpec(): DmEnvSpecs;
  /**
   * Spec of the reward as dm_env describes it: a single float64 if a function computes the reward or
   * the server has no reward observation.
   */
  rewardSpec(): DmEnvSpec;
  /**
   * Spec of the discount as dm_env describes it: a single float64 from 0 to 1 if a function computes
   * the discount or the server has no discount observation.
   */
  discountSpec(): DmEnvSpec;

  /**
   * Leaves the world, and destroys it if `destroyOnClose` is set; the connection stays open.
   * Outstanding steps, such as a step that waits for other agents, reject at once with CANCELLED of
   * origin `client`. Idempotent; has no effect if the connection is lost. `timeoutMs` is 5,000 by
   * default.
   */
  close(options?: WaitOptions): Promise<void>;
}

/** Options of creating or resetting a world. */
export interface WorldOptions extends WaitOptions {
  /**
   * A definition whose `settings` determine how to pack the settings. Default: the values determine
   * the dtypes.
   */
  readonly as?: Pick<EnvironmentDefinition, "settings"> | undefined;
  /** Settings of the world. */
  readonly settings?: Settings | undefined;
}

/**
 * One Process stream to a server, with at most one agent in one world.
 *
 * Requests may overlap: up to `maxInFlight` requests are sent before the first is answered. They are
 * sent and answered in the order of the calls. A request that the server refuses rejects with
 * a DmEnvRpcError, and the stream continues. When the stream is lost, or the server violates the
 * protocol, all outstanding calls reject with one DmEnvRpcError.
 */
export interface Connection extends AsyncDisposable {
  /** Name of the server: its address, or a name for a stream without a network. */
  readonly peer: string;

  /**
   * Sends any request of the protocol unchanged and returns its response.
   *
   * An environment notices resets and leaves that are sent this way, but not steps.
   *
   * @throws DmEnvRpcError of origin `server` if the server refuses, `client` if the wait ends early
   *   (DEADLINE_EXCEEDED, CANCELLED), `connection` if the stream is lost.
   */
  send<const R extends ProcessRequest>(request: R, options?: WaitOptions): Promise<ResponseTo<R>>;

  /** Creates a world and returns its name (reference.md, "CreateWorldRequest"). */
  createWorld(options?: WorldOptions): Promise<string>;

  /** Destroys a world; this connection must not have joined it. */
  destroyWorld(world: string, options?: WaitOptions): Promise<void>;

  /**
   * Begins a new sequence for every agent of a world, and waits until each has been informed
   * (behaviour 41). The caller need not have joined it.
   */
  resetWorld(world: string, options?: WorldOptions): Promise<void>;

  /**
   * Joins a world as an agent. A connection is in one world at a time.
   *
   * With `batch`, the connection joins that many environments, which one message steps together;
   * with `seats`, it joins as that many agents of a shared world. Closing the vector leaves the
   * world.
   *
   * @throws DmEnvRpcError NOT_FOUND for an unknown world, and the server's other errors.
   * @throws TensorError `spec` if the server's specs differ from those of `as`; in that case, the
   *   agent leaves the world before the error is thrown.
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

  /**
   * Passes all later requests and responses to an observer.
   *
   * @returns A function that removes the observer.
   */
  observe(observer: MessageObserver): () => void;

  /**
   * Leaves the joined world, if any (behaviour 29). Outstanding steps, such as a step that waits for
   * other agents, reject at once with CANCELLED of origin `client`.
   */
  leave(options?: WaitOptions): Promise<void>;

  /**
   * Refuses further requests, waits for the responses to the earlier requests, then closes. If the
   * options end the wait, the call rejects and the connection continues to drain.
   */
  drain(options?: WaitOptions): Promise<void>;

  /**
   * Refuses further requests, waits up to `timeoutMs` for the responses to the requests in flight,
   * then ends the stream. The agent leaves its world. Requests that were not sent yet reject.
   * Idempotent; never rejects. `timeoutMs` is 2,000 by default.
   */
  close(options?: { readonly timeoutMs?: number | undefined }): Promise<void>;

  /** Resolves when the stream has closed for any reason, with the error if it was lost. */
  readonly closed: Promise<Error | undefined>;
}
