// SPDX-License-Identifier: Apache-2.0
import type { AgentId } from "./agent.ts";

/** The actions of one step: by name, nested as the specs are. */
export type ActionValues = Readonly<Record<string, unknown>>;

/** Policy for agents that did not step before the deadline. */
export type MissedDeadlinePolicy = "wait" | "default-action" | "repeat-last" | "leave";

/** A deadline for slow agents. */
export interface DeadlineOptions {
  /**
   * Milliseconds from the moment that the first agent waits for the others. Default: no deadline.
   */
  readonly deadlineMs?: number | undefined;
  /**
   * The other agents `wait` for the late agent (default; the miss is only counted, once per step);
   * the world advances without the agent's actions (`default-action`) or with the actions of its
   * last step, unless the world refuses them (`repeat-last`); or the agent is removed from the
   * world (`leave`).
   */
  readonly onMissedDeadline?: MissedDeadlinePolicy | undefined;
}

/**
 * An agent in the sequence as a clock sees it. The same object is passed for as long as the agent
 * is in the sequence.
 */
export interface ClockSeat {
  readonly agent: AgentId;
  /** The agent's outstanding step. The first step of a sequence (`first`) has no actions. */
  readonly pending: { readonly actions: ActionValues; readonly first: boolean } | undefined;
  /**
   * The actions of the agent's last step that was played in this sequence. Set only with the policy
   * `repeat-last`.
   */
  readonly lastActions: ActionValues | undefined;
}

/** The actions of one tick; an agent that is not in the map does nothing. */
export type TickActions = ReadonlyMap<AgentId, ActionValues>;

/** Decides when a world advances and which steps are answered (reference.md, "Time"). */
export interface Clock extends DeadlineOptions {
  readonly name: string;
  /** Name of an action that the clock reads; the world must declare it. */
  readonly action?: string | undefined;
  /**
   * True if the world advances without its agents (behaviours 54, 65): a sequence begins without
   * the agents that have not stepped, and the next sequence begins by itself. Default false.
   */
  readonly continuous?: boolean | undefined;
  /** Starts the clock of one world. */
  start(sequence: SequenceControl): ClockDriver;
}

/**
 * Events of a sequence that its clock reacts to. While the world advances, only `closed` can be
 * reported, if the world is destroyed.
 */
export interface ClockDriver {
  /**
   * The sequence opened. Seats whose first step is outstanding wait for its answer. Unless the
   * clock is continuous, every seat has a first step outstanding.
   */
  opened(): void;
  /**
   * Returns the actions that would be in force after a step, for the world to validate (behaviour
   * 68); undefined if the step changes none. Default: the actions of the step.
   */
  inForceWith?(seat: ClockSeat, actions: ActionValues): ActionValues | undefined;
  /** The first step of an agent in the open sequence is outstanding. */
  entered(seat: ClockSeat): void;
  /** The step of a RUNNING agent is outstanding. */
  stepped(seat: ClockSeat): void;
  /** The world advanced; agents whose sequence ended have been answered. */
  advanced(): void;
  /**
   * The world refused the step of the only agent that acts in a tick, instead of advancing: the
   * step has been answered with the error. On a clock that does not define this method, a refusal
   * is a fault.
   */
  refused?(seat: ClockSeat): void;
  /**
   * The outstanding step of an agent was withdrawn because its stream was lost: it has no effect
   * (behaviour 77).
   */
  withdrawn?(seat: ClockSeat): void;
  /**
   * An agent joined or left, or a seat was held or resumed: the agents of the world, or `blocked`,
   * may have changed.
   */
  changed(): void;
  /** The sequence is over; timers must end. */
  closed(): void;
}

/** Operations of a clock on its sequence. */
export interface SequenceControl {
  /** The agents of the sequence in the order in which they joined. */
  readonly running: ReadonlySet<ClockSeat>;
  /** Number of RUNNING agents with a step outstanding. */
  readonly waiting: number;
  /**
   * True while the world must not advance because it waits for an agent to join or to resume its
   * seat.
   */
  readonly blocked: boolean;
  /** Milliseconds since some fixed moment. */
  now(): number;
  /**
   * Calls back once, while the world does not advance.
   *
   * @returns A function that cancels it.
   */
  after(delayMs: number, callback: () => void): () => void;
  /**
   * Calls back once, in a later turn of the event loop, so that other worlds and streams run first.
   *
   * @returns A function that cancels it.
   */
  rest(callback: () => void): () => void;
  /** Returns the agent whose turn it is according to the world; undefined if the clock decides. */
  nextTurn(previous: AgentId | undefined): AgentId | undefined;
  /**
   * Advances the world by a tick, and then calls `advanced`. A tick that `advanced` itself requests
   * begins after `advanced` returns.
   */
  advance(actions: TickActions): void;
  /** Answers the outstanding step of a seat with the current observations. */
  answer(seat: ClockSeat): void;
  /**
   * Counts a missed deadline, and removes the agent from the world if the policy is `leave`. It is
   * counted once, however long a tick or the beginning of a sequence waits for the agent's step.
   */
  missed(seat: ClockSeat): void;
  /** Counts the time by which a tick of a schedule is late. */
  tickLate(lateMs: number): void;
  /** Counts skipped ticks, and reports them (behaviour 66). */
  ticksMissed(count: number): void;
}
