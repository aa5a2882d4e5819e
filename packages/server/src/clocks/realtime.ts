// SPDX-License-Identifier: Apache-2.0
import type { AgentId } from "../definition/agent.ts";
import type {
  ActionValues,
  Clock,
  ClockDriver,
  ClockSeat,
  SequenceControl,
} from "../definition/clock.ts";

/** Options of a world that runs in real time. */
export interface RealtimeOptions {
  /** How often the world advances, in Hz. */
  readonly ticksPerSecond: number;
  /**
   * A step is answered with the observation after the `next` tick (default), or at
   * once with the `newest` there is.
   */
  readonly answer?: "next" | "newest";
  /**
   * An agent that does not step in time keeps its latest actions (`repeat-last`,
   * default), or has none in that tick (`default-action`).
   */
  readonly onMissedDeadline?: "repeat-last" | "default-action";
}

/**
 * The world advances at a rate, whether agents step or not, as in Universe. A step
 * sets the agent's latest actions. A tick that comes too late is not made up for.
 *
 * @throws RangeError when the rate is not above 0.
 */
export function realtime(options: RealtimeOptions): Clock {
  const { ticksPerSecond, onMissedDeadline = "repeat-last" } = options;
  if (!(ticksPerSecond > 0)) {
    throw new RangeError(`expected ticksPerSecond above 0, received ${ticksPerSecond}`);
  }
  return { name: "realtime", onMissedDeadline, start: (sequence) => driver(sequence, options) };
}

function driver(sequence: SequenceControl, options: RealtimeOptions): ClockDriver {
  const { ticksPerSecond, answer = "next", onMissedDeadline = "repeat-last" } = options;
  const periodMs = 1000 / ticksPerSecond;
  const latest = new Map<ClockSeat, ActionValues>();
  let cancelTick: (() => void) | undefined;
  let dueAt = 0;

  const schedule = (): void => {
    const now = sequence.now();
    dueAt = Math.max(dueAt + periodMs, now);
    cancelTick = sequence.after(dueAt - now, tick);
  };
  /** What an agent did before it was out of the sequence is not done when it is back. */
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

  return {
    opened() {
      for (const seat of sequence.running) sequence.answer(seat);
      dueAt = sequence.now();
      schedule();
    },
    entered: (seat) => sequence.answer(seat),
    stepped(seat) {
      latest.set(seat, seat.pending?.actions ?? {});
      if (answer === "newest") sequence.answer(seat);
    },
    advanced() {
      forgetGone();
      for (const seat of sequence.running) if (seat.pending !== undefined) sequence.answer(seat);
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
