// SPDX-License-Identifier: Apache-2.0
import { type Clock, freeRunning, lockstep, realtime, turns, wakeUp } from "@dm-env-rpc/server";
import { sleepAction } from "./world.ts";

/** How fast a board advances, as far as its clock wants to know. */
export interface Pace {
  /** How long to wait for a slow agent; 0 for ever. */
  readonly deadlineMs: number;
  readonly ticksPerSecond: number;
}

/** The clocks that `--clock` knows. */
export const clocks = {
  lockstep: (pace) => lockstep(deadline(pace)),
  turns: (pace) => turns(deadline(pace)),
  realtime: ({ ticksPerSecond }) =>
    realtime({ ticksPerSecond, onMissedDeadline: "default-action" }),
  freeRunning: () => freeRunning(),
  wakeUp: (pace) => wakeUp({ action: sleepAction, ...deadline(pace) }),
} as const satisfies Readonly<Record<string, (pace: Pace) => Clock>>;

/** A clock's name. */
export type ClockName = keyof typeof clocks;

/** Every name, in the order of the table. */
export const clockNames = Object.keys(clocks) as readonly ClockName[];

function deadline({ deadlineMs }: Pace) {
  return deadlineMs === 0 ? {} : ({ deadlineMs, onMissedDeadline: "default-action" } as const);
}
