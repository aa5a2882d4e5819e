// SPDX-License-Identifier: Apache-2.0
import { type Clock, freeRunning, lockstep, realtime, turns, wakeUp } from "@dm-env-rpc/server";
import { sleepAction } from "./world.ts";

/** How fast a board advances, as far as its clock wants to know. */
export interface Pace {
  /** How long to wait for a slow agent; 0 for ever. */
  readonly deadlineMs: number;
  readonly ticksPerSecond: number;
}

/** The flags that say it. */
export const paceFlags = ["deadline-ms", "ticks-per-second"] as const;

/** A clock that `--clock` knows. */
interface SampleClock {
  /** The flag that it goes by; others are refused with it. */
  readonly flag: (typeof paceFlags)[number] | undefined;
  make(pace: Pace): Clock;
}

const table = {
  lockstep: { flag: "deadline-ms", make: (pace) => lockstep(deadline(pace)) },
  turns: { flag: "deadline-ms", make: (pace) => turns(deadline(pace)) },
  realtime: {
    flag: "ticks-per-second",
    make: ({ ticksPerSecond }) => realtime({ ticksPerSecond, onMissedDeadline: "default-action" }),
  },
  freeRunning: { flag: undefined, make: () => freeRunning() },
  wakeUp: {
    flag: "deadline-ms",
    make: (pace) => wakeUp({ action: sleepAction, ...deadline(pace) }),
  },
} as const satisfies Readonly<Record<string, SampleClock>>;

/** A clock's name. */
export type ClockName = keyof typeof table;

/** The clocks that `--clock` knows. */
export const clocks: Readonly<Record<ClockName, SampleClock>> = table;

/** Every name, in the order of the table. */
export const clockNames = Object.keys(table) as readonly ClockName[];

function deadline({ deadlineMs }: Pace) {
  return deadlineMs === 0 ? {} : ({ deadlineMs, onMissedDeadline: "default-action" } as const);
}
