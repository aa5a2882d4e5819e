// SPDX-License-Identifier: Apache-2.0
import { freeRunning, lockstep, realtime, serve, turns, wakeUp } from "@dm-env-rpc/server";
import { meadow, meadowConfig } from "../testing/meadow.ts";
import type { ClockName } from "./config.ts";
import type { ProtocolName } from "./protocol-name.ts";
import { describeConformance } from "./vitest.ts";

const clocks = {
  lockstep: lockstep(),
  turns: turns(),
  realtime: realtime({ ticksPerSecond: 200 }),
  freeRunning: freeRunning(),
  wakeUp: wakeUp({ action: "sleep" }),
} satisfies Record<ClockName, unknown>;

function describeMeadow(clock: ClockName, protocol: ProtocolName): void {
  describeConformance({
    name: `a meadow, ${clock}, over ${protocol}`,
    protocol,
    config: { ...meadowConfig, clock },
    start: async () => {
      const server = await serve({ worlds: [meadow(clocks[clock])] });
      return { address: `${server.host}:${server.port}`, close: () => server.close() };
    },
  });
}

for (const clock of Object.keys(clocks) as ClockName[]) describeMeadow(clock, "grpc");
describeMeadow("lockstep", "connect");
describeMeadow("lockstep", "grpc-web");
