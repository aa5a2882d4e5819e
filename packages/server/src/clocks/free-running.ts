// SPDX-License-Identifier: Apache-2.0
import type { Clock, ClockDriver, ClockSeat, SequenceControl } from "../definition/clock.ts";
import { gather } from "./gather.ts";

/**
 * Each step of an agent advances the world at once, with its actions alone; nobody waits for another.
 * In a world of many agents, `affected` keeps a step from costing the more the more there are.
 */
export function freeRunning(): Clock {
  return { name: "freeRunning", start: driver };
}

function driver(sequence: SequenceControl): ClockDriver {
  /** The agent whose step the world is taking. */
  let acting: ClockSeat | undefined;

  const take = (seat: ClockSeat): void => {
    acting = seat;
    const actions = new Map();
    gather(actions, seat);
    sequence.advance(actions);
  };
  /** Takes a step that came while the world was blocked or busy. */
  const takeNext = (): void => {
    if (sequence.blocked || sequence.waiting === 0) return;
    for (const seat of sequence.running) {
      if (seat.pending !== undefined) {
        take(seat);
        return;
      }
    }
  };

  return {
    opened() {
      for (const seat of sequence.running) sequence.answer(seat);
    },
    entered: (seat) => sequence.answer(seat),
    stepped(seat) {
      if (!sequence.blocked) take(seat);
    },
    advanced() {
      if (acting?.pending !== undefined && sequence.running.has(acting)) sequence.answer(acting);
      acting = undefined;
      takeNext();
    },
    refused() {
      acting = undefined;
      takeNext();
    },
    changed: takeNext,
    closed() {
      acting = undefined;
    },
  };
}
