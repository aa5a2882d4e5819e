// SPDX-License-Identifier: Apache-2.0
import {
  freeRunning,
  lockstep,
  realtime,
  type ServeOptions,
  serve,
  turns,
  wakeUp,
} from "@dm-env-rpc/server";
import { type MeadowPolicies, meadow, meadowConfig } from "../testing/meadow.ts";
import type { ClockName, ConformanceConfig } from "./config.ts";
import type { ProtocolName } from "./protocol-name.ts";
import { describeConformance } from "./vitest.ts";

const clocks = {
  lockstep: lockstep(),
  turns: turns(),
  realtime: realtime({ ticksPerSecond: 200 }),
  freeRunning: freeRunning(),
  wakeUp: wakeUp({ action: "sleep" }),
} satisfies Record<ClockName, unknown>;

/** Declares a suite that serves a meadow and checks it. */
function describeMeadow(
  what: string,
  {
    protocol = "grpc",
    clock = "lockstep",
    config = {},
    policies = {},
    ...options
  }: {
    protocol?: ProtocolName | undefined;
    clock?: ClockName | undefined;
    /** Overrides of `meadowConfig`. */
    config?: ConformanceConfig | undefined;
    policies?: MeadowPolicies | undefined;
  } & Pick<ServeOptions, "singleWorld" | "premade">,
): void {
  describeConformance({
    name: `a meadow ${what}`,
    protocol,
    config: { ...meadowConfig, clock, ...policies, ...config },
    start: async () => {
      const server = await serve({ worlds: [meadow(clocks[clock], policies)], ...options });
      return { address: `${server.host}:${server.port}`, close: () => server.close() };
    },
  });
}

for (const clock of Object.keys(clocks) as ClockName[]) {
  describeMeadow(`on the clock ${clock}`, { clock });
}
for (const clock of Object.keys(clocks) as ClockName[]) {
  const create = { ...meadowConfig.create, min_agents: 3 };
  const shortSequence = { create: { length: 4, min_agents: 3 }, count: 4 };
  describeMeadow(`that needs three agents, on the clock ${clock}`, {
    clock,
    config: { agents: { min: 3, max: 8 }, create, shortSequence },
  });
}
for (const protocol of ["connect", "grpc-web"] as const) {
  describeMeadow(`over ${protocol}`, { protocol });
}

describeMeadow("whose leaves block, destroys drain and resets wait", {
  policies: { onLeave: "block", onDestroy: "drain", onReset: "wait" },
});
describeMeadow("that needs two agents, whose leaves block, destroys drain and resets wait", {
  policies: { onLeave: "block", onDestroy: "drain", onReset: "wait" },
  config: {
    agents: { min: 2, max: 8 },
    create: { ...meadowConfig.create, min_agents: 2 },
    shortSequence: { create: { length: 4, min_agents: 2 }, count: 4 },
  },
});
describeMeadow("whose leaves terminate sequences and destroys are forced", {
  policies: { onLeave: "terminate", onDestroy: "force" },
});
describeMeadow("on a server with one world", { singleWorld: true, config: { worlds: "one" } });
describeMeadow("that is premade", {
  singleWorld: true,
  premade: [{ settings: { length: 1_000_000 } }],
  config: { worlds: "none", premade: "" },
});
