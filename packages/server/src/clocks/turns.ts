// SPDX-License-Identifier: Apache-2.0
import type {
  Clock,
  ClockDriver,
  ClockSeat,
  DeadlineOptions,
  SequenceControl,
} from "../definition/clock.ts";
import { deadlineOf, goesOn } from "./deadline.ts";
import { gather } from "./gather.ts";

/**
 * One agent moves at a time. A step is answered when it is the agent's turn again, with the results
 * of the others' moves. Agents move in the order of joining, or in the order given by the world's
 * `turn`. The deadline applies to the agent whose turn it is.
 *
 * @example
 * const clock = turns({ deadlineMs: 30_000, onMissedDeadline: "leave" });
 */
export function turns(options: DeadlineOptions = {}): Clock {
  return { ...options, name: "turns", start: (sequence) => driver(sequence, options) };
}

function driver(sequence: SequenceControl, options: DeadlineOptions): ClockDriver {
  let current: ClockSeat | undefined;
  /** Agents whose outstanding step has been played. */
  const played = new WeakSet<ClockSeat>();

  const choose = (): ClockSeat | undefined => {
    const wanted = sequence.nextTurn(current?.agent);
    const seats = [...sequence.running];
    if (wanted === undefined) {
      const last = current?.agent ?? 0;
      return seats.find((seat) => seat.agent > last) ?? seats[0];
    }
    const chosen = seats.find((seat) => seat.agent === wanted);
    if (chosen !== undefined) {
      return chosen;
    }
    throw new Error(`"turn" chose agent ${wanted}, which is not RUNNING`);
  };
  const play = (seat: ClockSeat): void => {
    const actions = new Map();
    gather(actions, seat, options);
    if (seat.pending !== undefined) {
      played.add(seat);
    }
    sequence.advance(actions);
  };
  const deadline = deadlineOf(sequence, options, () => {
    if (current === undefined) {
      return;
    }
    sequence.missed(current);
    if (goesOn(options)) {
      play(current);
    }
  });
  /** Runs the deadline for the agent whose turn it is, while another agent waits. */
  const arm = (): void => {
    const others = sequence.waiting - (current?.pending === undefined ? 0 : 1);
    if (sequence.blocked || others === 0) {
      deadline.disarm();
    } else {
      deadline.arm();
    }
  };
  /**
   * Begins the current agent's turn: answers its step, or plays the move that it has already sent.
   */
  const begin = (): void => {
    if (current === undefined || sequence.blocked) {
      deadline.disarm();
      return;
    }
    if (current.pending !== undefined) {
      if (!current.pending.first && !played.has(current)) {
        play(current);
        return;
      }
      played.delete(current);
      sequence.answer(current);
    }
    arm();
  };
  const next = (): void => {
    deadline.disarm();
    current = choose();
    begin();
  };

  return {
    opened: next,
    entered(seat) {
      // An agent that resumed its seat learns that it is its turn.
      if (seat === current) {
        begin();
      } else {
        arm();
      }
    },
    stepped(seat) {
      if (seat !== current) {
        arm();
      } else if (!sequence.blocked) {
        play(seat);
      }
    },
    advanced: next,
    refused(seat) {
      played.delete(seat);
      arm();
    },
    withdrawn: (seat) => played.delete(seat),
    changed() {
      if (current === undefined || !sequence.running.has(current)) {
        next();
      } else {
        begin();
      }
    },
    closed() {
      deadline.disarm();
      current = undefined;
    },
  };
}
