// SPDX-License-Identifier: Apache-2.0
import { type Clock, freeRunning, lockstep, realtime, turns, wakeUp } from "@dm-env-rpc/server";
import { sleepAction } from "./world.ts";

/** Pace at which a board advances, for its clock. */
export interface Pace {
  /** Time to wait for a slow agent, in ms; 0 waits forever. */
  readonly deadlineMs: number;
  readonly ticksPerSecond: number;
}

/** Flags that set the pace. */
export const paceFlags = ["deadline-ms", "ticks-per-second"] as const;

/** A clock that `--clock` accepts. */
interface SampleClock {
  /** The flag that sets the pace of this clock, which refuses the other flag. */
  readonly flag: (typeof paceFlags)[number];
  make(pace: Pace): Clock;
}

const table = {
  lockstep: { flag: "deadline-ms", make: (pace) => lockstep(deadline(pace)) },
  turns: { flag: "deadline-ms", make: (pace) => turns(deadline(pace)) },
  realtime: {
    flag: "ticks-per-second",
    make: ({ ticksPerSecond }) => realtime({ ticksPerSecond, onMissedDeadline: "default-action" }),
  },
  freeRunning: { flag: "deadline-ms", make: (pace) => freeRunning(deadline(pace)) },
  wakeUp: {
    flag: "deadline-ms",
    make: (pace) => wakeUp({ action: sleepAction, ...deadline(pace) }),
  },
} as const satisfies Readonly<Record<string, SampleClock>>;

/** Name of a clock. */
export type ClockName = keyof typeof table;

/** Clocks that `--clock` accepts. */
export const clocks: Readonly<Record<ClockName, SampleClock>> = table;

/** Names of the clocks, in the order of the table. */
export const clockNames = Object.keys(table) as readonly ClockName[];

function deadline({ deadlineMs }: Pace) {
  return deadlineMs === 0 ? {} : ({ deadlineMs, onMissedDeadline: "default-action" } as const);
}
