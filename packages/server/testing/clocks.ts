// SPDX-License-Identifier: Apache-2.0
import { freeRunning } from "../src/clocks/free-running.ts";
import { lockstep } from "../src/clocks/lockstep.ts";
import { realtime } from "../src/clocks/realtime.ts";
import { turns } from "../src/clocks/turns.ts";
import { wakeUp } from "../src/clocks/wake-up.ts";
import type { Clock, DeadlineOptions } from "../src/definition/clock.ts";
import type * as api from "../src/index.ts";

type Api = typeof api;

/** Name of a clock: every public function that returns one. */
export type ClockName = {
  [K in keyof Api]: Api[K] extends (...args: never[]) => infer R
    ? R extends Clock
      ? K
      : never
    : never;
}[keyof Api];

/** A clock as tests make it. */
export interface TestedClock {
  /** True if a step waits for other agents, so that the clock has a deadline for slow agents. */
  readonly waits: boolean;
  /** @param options Ignored by a clock that does not wait. */
  make(options?: DeadlineOptions): Clock;
}

/** Every clock, for tests that run on all clocks or on all clocks of a kind. */
export const clocks: Readonly<Record<ClockName, TestedClock>> = {
  lockstep: { waits: true, make: lockstep },
  turns: { waits: true, make: turns },
  realtime: { waits: false, make: () => realtime({ ticksPerSecond: 20 }) },
  freeRunning: { waits: false, make: () => freeRunning() },
  wakeUp: { waits: true, make: (options) => wakeUp({ action: "sleep", ...options }) },
};

/** The names of all clocks. */
export const clockNames = Object.keys(clocks) as readonly ClockName[];

/** The names of the clocks on which a step waits for other agents. */
export const waitingClocks: readonly ClockName[] = clockNames.filter((name) => clocks[name].waits);

/** The names of the clocks on which the world advances only with its agents' steps. */
export const steppedClocks: readonly ClockName[] = clockNames.filter(
  (name) => clocks[name].make().continuous !== true,
);
