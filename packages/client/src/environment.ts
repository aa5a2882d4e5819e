// SPDX-License-Identifier: Apache-2.0
import type {
  DmEnvSpec,
  DmEnvSpecs,
  Scalar,
  Settings,
  Specs,
  Tensor,
} from "@dm-env-rpc/tensor-codec";
import type { Connection } from "./connection.ts";
import type {
  DynamicAction,
  DynamicObservation,
  EnvironmentDefinition,
  NameOf,
} from "./definition.ts";
import type { AgentState, StepType, TimeStep } from "./time-step.ts";
import type { WaitOptions } from "./wait.ts";

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
