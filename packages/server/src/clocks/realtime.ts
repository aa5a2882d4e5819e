// SPDX-License-Identifier: Apache-2.0
import type { AgentId } from "../definition/agent.ts";
import type {
  ActionValues,
  Clock,
  ClockDriver,
  ClockSeat,
  SequenceControl,
} from "../definition/clock.ts";
import { mergeActions } from "./merge-actions.ts";

/** Options of a world that runs in real time. */
export interface RealtimeOptions {
  /** How often the world advances, in Hz. */
  readonly ticksPerSecond: number;
  /**
   * A step is answered with the observation after the `next` tick (default), or at
   * once with the `newest` one.
   */
  readonly answer?: "next" | "newest";
  /**
   * An agent that does not step before a tick keeps its latest actions (`repeat-last`,
   * default), or has none in that tick (`default-action`).
   */
  readonly onMissedDeadline?: "repeat-last" | "default-action";
}

/**
 * The world advances at a rate, whether agents step or not, as in Universe.
 *
 * A step changes the actions that it gives and keeps the others in force, so that a step without actions only
 * observes (behaviour 64). The world waits for no agent: a sequence begins when the first agent steps, others
 * enter it as `lateEntry` says, and the next one begins by itself (behaviour 65). Ticks that come too late by
 * a whole period are left out, counted and reported as `ticks-missed`; the others keep their times (behaviour 66).
 *
 * @throws RangeError when the rate is not above 0.
 */
export function realtime(options: RealtimeOptions): Clock {
  const { ticksPerSecond, onMissedDeadline = "repeat-last" } = options;
  if (!(ticksPerSecond > 0)) {
    throw new RangeError(`expected ticksPerSecond above 0, received ${ticksPerSecond}`);
  }
  return {
    name: "realtime",
    continuous: true,
    onMissedDeadline,
    start: (sequence) => driver(sequence, options),
  };
}

function driver(sequence: SequenceControl, options: RealtimeOptions): ClockDriver {
  const { ticksPerSecond, answer = "next", onMissedDeadline = "repeat-last" } = options;
  const periodMs = 1000 / ticksPerSecond;
  const latest = new Map<ClockSeat, ActionValues>();
  let cancelTick: (() => void) | undefined;
  /** When the last tick was due; the next one is a period later, however late the last one was. */
  let dueAt = Number.NEGATIVE_INFINITY;

  const schedule = (): void => {
    const now = sequence.now();
    dueAt += periodMs;
    const missed = Math.floor((now - dueAt) / periodMs);
    if (missed > 0) {
      dueAt += missed * periodMs;
      sequence.ticksMissed(missed);
    }
    cancelTick = sequence.after(Math.max(0, dueAt - now), tick);
  };
  /** Actions that an agent gave before it was out of the sequence are not in force once it is back. */
  const forgetGone = (): void => {
    for (const seat of latest.keys()) if (!sequence.running.has(seat)) latest.delete(seat);
  };
  const tick = (): void => {
    cancelTick = undefined;
    if (sequence.blocked) {
      schedule();
      return;
    }
    const actions = new Map<AgentId, ActionValues>();
    for (const [seat, values] of latest) actions.set(seat.agent, values);
    if (onMissedDeadline === "default-action") latest.clear();
    sequence.advance(actions);
  };
  const answerWaiting = (): void => {
    for (const seat of sequence.running) if (seat.pending !== undefined) sequence.answer(seat);
  };

  return {
    opened() {
      answerWaiting();
      const now = sequence.now();
      // A sequence that follows another one keeps the times of its ticks.
      if (now - dueAt >= periodMs) dueAt = now;
      schedule();
    },
    entered: (seat) => sequence.answer(seat),
    stepped(seat) {
      const actions = mergeActions(latest.get(seat), seat.pending?.actions);
      if (actions !== undefined) latest.set(seat, actions);
      if (answer === "newest") sequence.answer(seat);
    },
    advanced() {
      forgetGone();
      answerWaiting();
      schedule();
    },
    changed: forgetGone,
    closed() {
      cancelTick?.();
      cancelTick = undefined;
      latest.clear();
    },
  };
}
