// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, it } from "vitest";
import { manualTime } from "../testing/manual-time.ts";
import { memoryCarrier } from "../testing/model/carriers.ts";
import { type Scenario, scenarios } from "../testing/model/operations.ts";
import { clockOf, runScenario } from "../testing/model/run.ts";
import { type TallyEvent, tally } from "../testing/tally.ts";
import { createEnvironmentServer } from "./environment-server.ts";

/** No stream is looked at for being idle, which would be a timer that is always there. */
const limits = { idleStreamMs: 0 };

/** How many scenarios are run on each clock; more with the environment variable. */
const runs = Number(process.env["MODEL_RUNS"] ?? 300);

async function overMemory(scenario: Scenario): Promise<void> {
  const log: TallyEvent[] = [];
  const time = manualTime();
  const { clock, ...policies } = scenario.policies;
  const world = tally({ ...policies, clock: clockOf(clock), log });
  const server = createEnvironmentServer({ worlds: [world], time, limits });
  await using carrier = memoryCarrier(server, false);
  await runScenario(scenario, { server, carrier, time, log });
}

describe("the model of a server", () => {
  it.each(["lockstep", "turns", "realtime", "freeRunning", "wakeUp"] as const)(
    "agrees with the server on random requests, on the clock %s",
    async (kind) => {
      await fc.assert(fc.asyncProperty(scenarios(kind), overMemory), {
        numRuns: runs,
        ...(process.env["MODEL_SEED"] ? { seed: Number(process.env["MODEL_SEED"]) } : {}),
      });
    },
  );
});
