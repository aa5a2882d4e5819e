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
  /** Rate of the ticks, in Hz. */
  readonly ticksPerSecond: number;
  /**
   * A step is answered with the observation after the `next` tick (default), or at once with the
   * `newest` observation.
   */
  readonly answer?: "next" | "newest" | undefined;
  /**
   * An agent that does not step before a tick keeps its latest actions (`repeat-last`,
   * default), or has none in that tick (`default-action`).
   */
  readonly onMissedDeadline?: "repeat-last" | "default-action" | undefined;
}

/**
 * The world advances at a rate, whether agents step or not, as in Universe.
 *
 * A step replaces the actions that it names; the agent's other actions stay in force, so that a
 * step without actions only observes (behaviour 64). The world does not wait for agents: a sequence
 * begins when the first agent steps, others enter it according to `lateEntry`, and the next
 * sequence begins by itself (behaviour 65). Ticks that are late by a whole period are skipped,
 * counted and reported as `ticks-missed`; late ticks do not shift the schedule (behaviour 66).
 *
 * The world's `validate` receives all actions that would be in force after a step; if it refuses
 * them, the step is answered with the error and the actions in force are unchanged. A step without
 * actions is never refused. Actions in force are validated again at each tick. Actions that the
 * world refuses then have no effect in that tick but stay in force, so that they take effect again
 * once the world accepts them.
 *
 * @throws RangeError if the rate is not a finite number above 0.
 *
 * @example
 * const clock = realtime({ ticksPerSecond: 60 });
 */
export function realtime(options: RealtimeOptions): Clock {
  const { ticksPerSecond, onMissedDeadline = "repeat-last" } = options;
  if (!(ticksPerSecond > 0 && Number.isFinite(ticksPerSecond))) {
    throw new RangeError(`expected a finite ticksPerSecond above 0, received ${ticksPerSecond}`);
  }
  return {
    name: "realtime",
    continuous: true,
    onMissedDeadline,
    start: (sequence) => driver(sequence, options),
  };
}

function driver(sequence: SequenceControl, options: RealtimeOptions): ClockDriver {
  const { ticksPerSecond, answer, onMissedDeadline } = options;
  const periodMs = 1000 / ticksPerSecond;
  /**
   * Actions in force. A seat belongs to one sequence, so an agent begins each sequence without any.
   */
  let latest = new WeakMap<ClockSeat, ActionValues>();
  let cancelTick: (() => void) | undefined;
  /** Time of the next tick; until it is known, the time of the last tick. */
  let dueAt = Number.NEGATIVE_INFINITY;

  const arm = (): void => {
    cancelTick = sequence.after(Math.max(0, dueAt - sequence.now()), tick);
  };
  /**
   * Schedules the next tick one period after the last tick was due, even if the last tick was late.
   */
  const scheduleNext = (): void => {
    dueAt += periodMs;
    const missed = Math.floor((sequence.now() - dueAt) / periodMs);
    if (missed > 0) {
      dueAt += missed * periodMs;
      sequence.ticksMissed(missed);
    }
    arm();
  };
  const tick = (): void => {
    cancelTick = undefined;
    if (sequence.blocked) {
      scheduleNext();
      return;
    }
    sequence.tickLate(sequence.now() - dueAt);
    const actions = new Map<AgentId, ActionValues>();
    // In the order of joining, so that a seed reproduces a sequence regardless of how requests
    // interleave.
    for (const seat of sequence.running) {
      const values = latest.get(seat);
      if (values !== undefined) {
        actions.set(seat.agent, values);
      }
    }
    if (onMissedDeadline === "default-action") {
      latest = new WeakMap();
    }
    sequence.advance(actions);
  };
  const answerWaiting = (): void => {
    for (const seat of sequence.running) {
      if (seat.pending !== undefined) {
        sequence.answer(seat);
      }
    }
  };

  return {
    opened() {
      answerWaiting();
      const now = sequence.now();
      // A sequence that follows another one continues that one's tick schedule.
      if (now - dueAt >= periodMs) {
        dueAt = now + periodMs;
      } else if (now >= dueAt) {
        dueAt += periodMs;
      }
      arm();
    },
    inForceWith: (seat, actions) =>
      Object.keys(actions).length === 0 ? undefined : mergeActions(latest.get(seat), actions),
    entered: (seat) => sequence.answer(seat),
    stepped(seat) {
      const actions = mergeActions(latest.get(seat), seat.pending?.actions);
      if (actions !== undefined) {
        latest.set(seat, actions);
      }
      if (answer === "newest") {
        sequence.answer(seat);
      }
    },
    advanced() {
      answerWaiting();
      scheduleNext();
    },
    changed() {},
    closed() {
      cancelTick?.();
      cancelTick = undefined;
    },
  };
}
