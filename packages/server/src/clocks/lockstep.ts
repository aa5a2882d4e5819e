// SPDX-License-Identifier: Apache-2.0
import type { AgentId } from "../definition/agent.ts";
import type {
  ActionValues,
  Clock,
  ClockDriver,
  ClockSeat,
  DeadlineOptions,
  SequenceControl,
} from "../definition/clock.ts";
import { deadlineOf, goesOn } from "./deadline.ts";
import { gather } from "./gather.ts";

/**
 * All RUNNING agents move together: the world advances when each of them has a
 * step outstanding, or at the deadline, and then all of them are answered.
 *
 * @example
 * const clock = lockstep({ deadlineMs: 1_000, onMissedDeadline: "repeat-last" });
 */
export function lockstep(options: DeadlineOptions = {}): Clock {
  return { ...options, name: "lockstep", start: (sequence) => driver(sequence, options) };
}

function driver(sequence: SequenceControl, options: DeadlineOptions): ClockDriver {
  const tick = (): void => {
    deadline.disarm();
    const actions = new Map<AgentId, ActionValues>();
    for (const seat of sequence.running) {
      gather(actions, seat, options);
    }
    sequence.advance(actions);
  };
  const deadline = deadlineOf(sequence, options, () => {
    const late = [...sequence.running].filter((seat) => seat.pending === undefined);
    for (const seat of late) {
      sequence.missed(seat);
    }
    // With the policy `leave`, removing the late agents has already triggered the tick, through
    // `changed`.
    if (goesOn(options)) {
      tick();
    }
  });
  const check = (): void => {
    if (sequence.blocked || sequence.waiting === 0) {
      deadline.disarm();
    } else if (sequence.waiting === sequence.running.size) {
      tick();
    } else {
      deadline.arm();
    }
  };
  const answerWaiting = (): void => {
    for (const seat of sequence.running) {
      if (seat.pending !== undefined) {
        sequence.answer(seat);
      }
    }
  };

  return {
    opened: answerWaiting,
    entered: (seat: ClockSeat) => sequence.answer(seat),
    stepped: check,
    advanced: answerWaiting,
    refused: check,
    changed: check,
    closed: deadline.disarm,
  };
}
