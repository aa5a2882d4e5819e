// SPDX-License-Identifier: Apache-2.0
import type { AgentId } from "../definition/agent.ts";
import type { ActionValues } from "../engine/seat-specs.ts";

/** What happens to the agents that did not step before the deadline. */
export type MissedDeadlinePolicy = "wait" | "default-action" | "repeat-last" | "leave";

/** A deadline for slow agents. */
export interface DeadlineOptions {
  /** Milliseconds from the moment that the first agent waits for the others. Default: none. */
  readonly deadlineMs?: number;
  /**
   * The others `wait` for it (default, the miss is only counted, once a step); the world moves
   * on without its actions (`default-action`) or with those of its last step
   * (`repeat-last`); or it is taken out of the world (`leave`).
   */
  readonly onMissedDeadline?: MissedDeadlinePolicy;
}

/** An agent as a clock sees it. */
export interface ClockSeat {
  readonly agent: AgentId;
  /** Its step, until that has been answered; the `first` of a sequence has no actions. */
  readonly pending: { readonly actions: ActionValues; readonly first: boolean } | undefined;
  /** The actions of its last step in this sequence. */
  lastActions: ActionValues | undefined;
}

/** The actions of one tick; an agent that is not in it does nothing. */
export type TickActions = ReadonlyMap<AgentId, ActionValues>;

/** Decides when a world advances and who is answered (reference.md, "Time"). */
export interface Clock extends DeadlineOptions {
  readonly name: string;
  /** Name of an action that it reads, which the world must have. */
  readonly action?: string;
  /** Starts the clock of one world. */
  start(sequence: SequenceControl): ClockDriver;
}

/** What happens in a sequence, told to its clock. Never called while the world advances. */
export interface ClockDriver {
  /** The sequence opened; every seat in it waits for the answer to its first step. */
  opened(): void;
  /** An agent entered the open sequence and waits for the answer to its first step. */
  entered(seat: ClockSeat): void;
  /** The step of a RUNNING agent is outstanding. */
  stepped(seat: ClockSeat): void;
  /** The world advanced; agents whose sequence ended have been answered. */
  advanced(): void;
  /** An agent is out of the sequence, or the world went on after it was blocked. */
  changed(): void;
  /** The sequence is over; timers must end. */
  closed(): void;
}

/** What a clock can do with the sequence that it times. */
export interface SequenceControl {
  /** The RUNNING agents in the order in which they joined. */
  readonly running: ReadonlySet<ClockSeat>;
  /** How many of them have a step outstanding. */
  readonly waiting: number;
  /** Whether the world must not advance now: an agent left and another has to join first. */
  readonly blocked: boolean;
  /** Milliseconds since some fixed moment. */
  now(): number;
  /** Calls back once, while the world does not advance; the result cancels it. */
  after(delayMs: number, callback: () => void): () => void;
  /** Calls back once, when others have had their turn, however little time passes; the result cancels it. */
  rest(callback: () => void): () => void;
  /** Whose turn the world says it is; undefined when it leaves that to the clock. */
  nextTurn(previous: AgentId | undefined): AgentId | undefined;
  /**
   * Advances the world by a tick; `advanced` follows. Called from within `advanced`,
   * the tick comes after it.
   */
  advance(actions: TickActions): void;
  /** Answers the outstanding step of a seat with the observations as they are now. */
  answer(seat: ClockSeat): void;
  /**
   * An agent has missed the deadline. Counts it, once for each beginning or tick that waits for the
   * agent's step, however long; and takes the agent out of the world where the policy is `leave`.
   */
  missed(seat: ClockSeat): void;
}

/**
 * Adds the actions that a seat's outstanding step gives to those of a tick; without one, those of
 * its last step where the policy is `repeat-last`.
 */
export function gather(
  actions: Map<AgentId, ActionValues>,
  seat: ClockSeat,
  { onMissedDeadline }: DeadlineOptions = {},
): void {
  const { pending } = seat;
  if (pending !== undefined && !pending.first) {
    seat.lastActions = pending.actions;
    actions.set(seat.agent, pending.actions);
  } else if (onMissedDeadline === "repeat-last" && seat.lastActions !== undefined) {
    actions.set(seat.agent, seat.lastActions);
  }
}
