// SPDX-License-Identifier: Apache-2.0
import type {
  Clock,
  ClockDriver,
  ClockSeat,
  DeadlineOptions,
  SequenceControl,
} from "../definition/clock.ts";
import { gather } from "./gather.ts";

/**
 * Each step advances the world immediately, with only that agent's actions. Agents wait for one
 * another only before a sequence begins; the deadline applies to agents that have not sent their
 * first step. In a world of many agents, `affected` keeps the cost of a step
 * independent of their number.
 *
 * @example
 * const clock = freeRunning();
 */
export function freeRunning(options: DeadlineOptions = {}): Clock {
  return { ...options, name: "freeRunning", start: driver };
}

function driver(sequence: SequenceControl): ClockDriver {
  /** The agent whose step is advancing the world. Other steps wait, such as those of a stream with several seats. */
  let acting: ClockSeat | undefined;

  const take = (seat: ClockSeat): void => {
    acting = seat;
    const actions = new Map();
    gather(actions, seat);
    sequence.advance(actions);
  };
  /** Processes a step that arrived while the world was blocked or advancing. */
  const takeNext = (): void => {
    acting = undefined;
    if (sequence.blocked || sequence.waiting === 0) {
      return;
    }
    for (const seat of sequence.running) {
      if (seat.pending !== undefined) {
        take(seat);
        return;
      }
    }
  };

  return {
    opened() {
      for (const seat of sequence.running) {
        sequence.answer(seat);
      }
    },
    entered: (seat) => sequence.answer(seat),
    stepped(seat) {
      if (!sequence.blocked && acting === undefined) {
        take(seat);
      }
    },
    advanced() {
      // An agent that has left the sequence has already received its response.
      if (acting?.pending !== undefined) {
        sequence.answer(acting);
      }
      takeNext();
    },
    refused: takeNext,
    changed: takeNext,
    closed() {
      acting = undefined;
    },
  };
}
