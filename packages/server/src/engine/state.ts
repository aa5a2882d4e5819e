// SPDX-License-Identifier: Apache-2.0
import type { EnvironmentStateType } from "@dm-env-rpc/protocol";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { SpecEntry } from "@dm-env-rpc/tensor-codec/proto";
import type { StepRequest } from "@dm-env-rpc/tensor-codec/wire";
import type { AgentId } from "../definition/agent.ts";
import type { ActionValues, ClockSeat } from "../definition/clock.ts";
import type { Cancel } from "./outside.ts";
import type { Done, Reply } from "./requests.ts";
import type { RewardSum } from "./rewards.ts";
import { RunningAgents } from "./running-agents.ts";
import type { SavedEnd } from "./saved-ends.ts";
import type { SeatSpecs } from "./seat-specs.ts";

/** One of the steps that several agents make together. */
export interface RowStep<S extends SeatView = SeatView> {
  readonly seat: S;
  readonly request: StepRequest;
  readonly reply: Reply;
}

/** A checked step that is not answered yet. */
export interface OutstandingStep {
  /** Empty for the first step of a sequence. */
  readonly actions: ActionValues;
  readonly requested: readonly SpecEntry[];
  readonly reply: Reply;
  /** True for the first step of a sequence, which is answered RUNNING. */
  readonly first: boolean;
  /** `WorldState.moves` when the step was checked. */
  readonly move: number;
}

/** An agent that is not RUNNING and has no request outstanding. */
export interface Idle {
  readonly kind: "idle";
  /** True if the next sequence does not wait for this agent. */
  readonly excused: boolean;
}

/** An agent that is not RUNNING; its first step waits for a sequence to begin. */
export interface Opening {
  readonly kind: "opening";
  readonly step: OutstandingStep;
}

/** An agent in the world's sequence: RUNNING, or about to be once it steps. */
export interface Running extends ClockSeat {
  readonly kind: "running";
  seat: Seat;
  pending: OutstandingStep | undefined;
  lastActions: ActionValues | undefined;
  /**
   * True once the agent's first step in this sequence has arrived. Before that, the agent does not
   * know of the sequence. This is possible only on a continuous clock, which begins sequences
   * without first steps.
   */
  entered: boolean;
  /** The end of an earlier sequence, which the agent receives first. Only on a continuous clock. */
  undelivered: Ended | undefined;
  /** Reward since the last response. */
  readonly reward: RewardSum;
}

/** An agent out of the sequence; its reset waits for the end of the others' sequence. */
export interface Resetting {
  readonly kind: "resetting";
  readonly reply: Reply;
  /** Specs that apply once the reset is answered. */
  readonly specs: SeatSpecs;
}

/**
 * An undelivered end: the sequence is over, and the agent's next step delivers its end (behaviours
 * 41, 61).
 */
export interface Ended {
  readonly kind: "ended";
  readonly seat: Seat;
  readonly state: EnvironmentStateType;
  readonly reward: RewardSum;
  /** The final observations, saved before the world advances. */
  saved: SavedEnd | undefined;
  /** True if the next sequence does not wait for this agent. */
  excused: boolean;
}

/** An agent that is no longer in the world. */
export interface Gone {
  readonly kind: "gone";
  /** Undefined if the agent left by itself. */
  readonly reason: DmEnvRpcError | undefined;
}

/** State of an agent. Each case has only the properties that exist in it. */
export type SeatState = Idle | Opening | Running | Resetting | Ended | Gone;

/** The place of an agent in a world; everything but the engine sees a `SeatView`. */
export interface Seat {
  readonly agent: AgentId;
  specs: SeatSpecs;
  /** The settings of the join, with the changes of later resets. */
  settings: Readonly<Record<string, unknown>>;
  state: SeatState;
  /**
   * True once the agent has been in a sequence; on a continuous clock it then takes part in every
   * later sequence from the start.
   */
  takesPart: boolean;
  /** The move (see `WorldState.moves`) for which a missed deadline was counted since the last step. */
  missedMove: number | undefined;
  /** Observations that the last step of this agent requested. */
  requested: readonly SpecEntry[];
  /** Key with which a join resumes this seat; undefined if the seat cannot be resumed. */
  readonly key: string | undefined;
  /** True if the join of this stream has resumed the seat of an earlier stream. */
  readonly isResumed: boolean;
  /** Set while the seat is held for an agent whose stream was lost. */
  held: Held | undefined;
  /**
   * Called once, when the agent has left the world for any reason, or another connection has
   * resumed its seat.
   */
  readonly onLeft: (reason: DmEnvRpcError | undefined) => void;
}

/** A reward that only the engine and its `observing.ts` add to. */
type RewardView = Readonly<Pick<RewardSum, "last" | "total">>;

interface RunningView extends Readonly<Omit<Running, "seat" | "undelivered" | "reward">> {
  readonly seat: SeatView;
  readonly undelivered: EndedView | undefined;
  readonly reward: RewardView;
}

interface EndedView extends Readonly<Omit<Ended, "seat" | "reward">> {
  readonly seat: SeatView;
  readonly reward: RewardView;
}

/** State of an agent outside the engine. */
export type SeatStateView = Exclude<SeatState, Running | Ended> | RunningView | EndedView;

/**
 * A seat as code outside the engine sees it: its state cannot be changed, and `onLeft` cannot be
 * called. A `Seat` is assignable to a `SeatView`, but a `SeatView` is not assignable to a `Seat`.
 */
export interface SeatView extends Readonly<Omit<Seat, "state" | "held" | "onLeft">> {
  readonly state: SeatStateView;
}

/** A seat that is held. */
export interface Held {
  readonly cancelDeadline: Cancel;
  /** True if the world waits for the agent. */
  readonly blocks: boolean;
}

/** A reset of the world in progress. */
export interface WorldReset {
  /** The settings of all callers; later callers override earlier ones. */
  settings: Readonly<Record<string, unknown>>;
  readonly callers: Done<undefined>[];
  /** Undelivered ends that the reset waits for. */
  readonly awaited: Set<Ended>;
  cancelDeadline: Cancel;
}

/** A destroy that waits for the agents to leave; further joins are refused. */
export interface Draining {
  readonly callers: Done<undefined>[];
  cancelDeadline: Cancel | undefined;
}

/** State of a world. */
export interface WorldState {
  /** Joined agents, in the order of joining. */
  readonly seats: Map<AgentId, Seat>;
  /** Number of the last agent. A refused join also consumes a number. */
  lastAgent: number;
  readonly running: RunningAgents<Running>;
  /** Number of RUNNING agents with a step outstanding. */
  waiting: number;
  /** Number of `opening` seats. */
  opening: number;
  /** Number of excused seats. */
  excused: number;
  /** Undelivered ends whose final observations the world still shows. */
  readonly unsaved: Set<Ended>;
  /** Number of agents that left and must be replaced before the world continues. */
  vacancies: number;
  /** Number of held seats that the world waits for. */
  blockingSeats: number;
  /** `starting` while undelivered ends are saved and while the author's `start` is pending. */
  sequence: "closed" | "starting" | "open";
  /** Number of sequences that have begun. */
  sequences: number;
  /** Number of ticks. */
  ticks: number;
  /** Number of accepted steps. */
  steps: number;
  /**
   * Number of ends of sequences, counted for each agent, and the sum of the agents' returns in
   * them.
   */
  returns: number;
  returnSum: number;
  /**
   * Number of times that a sequence has begun, ticked or ended. While it is unchanged, the world
   * has not moved.
   */
  moves: number;
  missedDeadlines: number;
  /** Number of ticks that the clock skipped. */
  missedTicks: number;
  /** Sum of the times by which ticks of a schedule were late. */
  tickLagMs: number;
  reset: WorldReset | undefined;
  draining: Draining | undefined;
  /**
   * The error with which joins and first steps are refused while the server shuts down; otherwise
   * undefined.
   */
  closing: DmEnvRpcError | undefined;
  /** The error once the world is gone. */
  gone: DmEnvRpcError | undefined;
  /** Requests without an outcome yet, except those of seats. */
  readonly unanswered: Set<Done<never>>;
}

/** State of a world outside the engine. */
export interface WorldView
  extends Readonly<
    Omit<WorldState, "seats" | "running" | "unsaved" | "reset" | "draining" | "unanswered">
  > {
  readonly seats: ReadonlyMap<AgentId, SeatView>;
  readonly running: { readonly agents: ReadonlySet<RunningView>; readonly size: number };
  readonly unsaved: ReadonlySet<EndedView>;
  readonly reset: { readonly awaited: ReadonlySet<EndedView> } | undefined;
}

/** The state of a world without agents. */
export function emptyWorld(): WorldState {
  return {
    seats: new Map(),
    lastAgent: 0,
    running: new RunningAgents(),
    waiting: 0,
    opening: 0,
    excused: 0,
    unsaved: new Set(),
    vacancies: 0,
    blockingSeats: 0,
    sequence: "closed",
    sequences: 0,
    ticks: 0,
    steps: 0,
    returns: 0,
    returnSum: 0,
    moves: 0,
    missedDeadlines: 0,
    missedTicks: 0,
    tickLagMs: 0,
    reset: undefined,
    draining: undefined,
    closing: undefined,
    gone: undefined,
    unanswered: new Set(),
  };
}

/**
 * Returns true while the world must not advance because it waits for an agent to join or to resume
 * its seat.
 */
export function isBlocked({ vacancies, blockingSeats }: WorldView): boolean {
  return vacancies + blockingSeats > 0;
}

/**
 * Returns true while the agent is in a sequence or has an undelivered end, so that its next step
 * may deliver an end.
 */
export function expectsEnd({ state }: SeatView): boolean {
  return state.kind === "running" || state.kind === "ended";
}
