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

/** Options of a world whose agents sleep. */
export interface WakeUpOptions extends DeadlineOptions {
  /**
   * Name of the scalar numeric action that sets for how many ticks the agent sleeps; values below 1
   * and a missing action count as 1. The `max` of the action's spec bounds the sleep; without a
   * bound, an agent may sleep to the end of the sequence.
   */
  readonly action: string;
}

/**
 * Each agent sets with its actions when it next wakes (reference.md, "Time"). When all RUNNING
 * agents sleep, the world ticks until the earliest wake-up, and the agents that wake receive their
 * responses. An agent's actions apply in the first tick of its sleep.
 *
 * @example
 * const actions = { move: t.discrete(4), sleep: t.int32([], { min: 1, max: 100 }) };
 * const clock = wakeUp({ action: "sleep" });
 */
export function wakeUp(options: WakeUpOptions): Clock {
  return { ...options, name: "wakeUp", start: (sequence) => driver(sequence, options) };
}

/** Milliseconds that the world may tick without a wake-up before it yields to other worlds. */
const atOnceMs = 5;

function driver(sequence: SequenceControl, options: WakeUpOptions): ClockDriver {
  const { action, onMissedDeadline } = options;
  /** The tick at which each sleeping agent wakes. */
  const wakes = new Map<ClockSeat, number>();
  let now = 0;
  let fresh = new Set<ClockSeat>();
  let cancelRest: (() => void) | undefined;
  let turnBegan = 0;

  const sleep = (seat: ClockSeat, values: ActionValues | undefined): void => {
    const ticks = Math.floor(Number(values?.[action] ?? 1));
    wakes.set(seat, now + Math.max(ticks, 1));
    fresh.add(seat);
  };
  const tick = (): void => {
    deadline.disarm();
    const actions = new Map<AgentId, ActionValues>();
    // In the order of joining, so that a seed reproduces a sequence regardless of how requests
    // interleave.
    for (const seat of sequence.running) {
      if (fresh.has(seat)) {
        gather(actions, seat, options);
      }
    }
    fresh = new Set();
    sequence.advance(actions);
  };
  const tickOrRest = (): void => {
    if (cancelRest !== undefined) {
      return;
    }
    if (sequence.now() - turnBegan <= atOnceMs) {
      tick();
      return;
    }
    deadline.disarm();
    cancelRest = sequence.rest(() => {
      cancelRest = undefined;
      inTurn();
    });
  };
  const deadline = deadlineOf(sequence, options, () => {
    const late = [...sequence.running].filter((seat) => !wakes.has(seat));
    for (const seat of late) {
      sequence.missed(seat);
      if (onMissedDeadline === "default-action") {
        sleep(seat, undefined);
      }
      if (onMissedDeadline === "repeat-last") {
        sleep(seat, seat.lastActions);
      }
    }
    // With the policy `leave`, removing the late agents has already triggered the tick, through
    // `changed`.
    if (goesOn(options)) {
      inTurn();
    }
  });
  const check = (): void => {
    for (const seat of wakes.keys()) {
      if (!sequence.running.has(seat)) {
        wakes.delete(seat);
      }
    }
    if (sequence.blocked || wakes.size === 0) {
      deadline.disarm();
    } else if (wakes.size === sequence.running.size) {
      tickOrRest();
    } else {
      deadline.arm();
    }
  };

  const inTurn = (): void => {
    turnBegan = sequence.now();
    check();
  };

  return {
    opened() {
      for (const seat of sequence.running) {
        sequence.answer(seat);
      }
    },
    entered: (seat) => sequence.answer(seat),
    stepped(seat) {
      sleep(seat, seat.pending?.actions);
      inTurn();
    },
    advanced() {
      now += 1;
      for (const [seat, wakesAt] of wakes) {
        if (wakesAt > now && sequence.running.has(seat)) {
          continue;
        }
        wakes.delete(seat);
        if (seat.pending !== undefined && sequence.running.has(seat)) {
          sequence.answer(seat);
        }
      }
      check();
    },
    withdrawn(seat) {
      wakes.delete(seat);
      fresh.delete(seat);
    },
    changed: inTurn,
    closed() {
      deadline.disarm();
      cancelRest?.();
      cancelRest = undefined;
      wakes.clear();
      fresh.clear();
    },
  };
}
