// SPDX-License-Identifier: Apache-2.0
import type * as server from "@dm-env-rpc/server";
import type { ClockName } from "../src/config.ts";

/** Clocks of the faulty servers. */
export type MeadowClock = Extract<ClockName, "lockstep" | "realtime">;

/** Makes a meadow's clock with the given server module. */
export function meadowClock(
  { lockstep, realtime }: Pick<typeof server, MeadowClock>,
  name: string,
): server.Clock {
  const known: Record<string, () => server.Clock> = {
    lockstep: () => lockstep(),
    realtime: () => realtime({ ticksPerSecond: 200 }),
  } satisfies Record<MeadowClock, () => server.Clock>;
  const make = known[name];
  if (make === undefined) {
    throw new Error(`expected one of ${Object.keys(known)}, received ${name}`);
  }
  return make();
}
