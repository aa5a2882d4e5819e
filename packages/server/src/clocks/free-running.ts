// SPDX-License-Identifier: Apache-2.0
import type { Clock, ClockDriver, ClockSeat, SequenceControl } from "../definition/clock.ts";
import { gather } from "./gather.ts";

/**
 * Each step advances the world immediately, with that agent's actions alone; no agent waits for another.
 * In a world of many agents, `affected` keeps the cost of a step independent of their number.
 */
export function freeRunning(): Clock {
  return { name: "freeRunning", start: driver };
}

function driver(sequence: SequenceControl): ClockDriver {
  /** The agent whose step advances the world. */
  let acting: ClockSeat | undefined;

  const take = (seat: ClockSeat): void => {
    acting = seat;
    const actions = new Map();
    gather(actions, seat);
    sequence.advance(actions);
  };
  /** Takes a step that arrived while the world was blocked or advancing. */
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
