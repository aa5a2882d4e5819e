// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { describe, it } from "vitest";
import { manualTime } from "../testing/manual-time.ts";
import { memoryCarrier } from "../testing/model/carriers.ts";
import { mishaps, type Scenario, scenarios } from "../testing/model/operations.ts";
import { clockOf, runScenario } from "../testing/model/run.ts";
import { callMs } from "../testing/model/turns.ts";
import { oracleOf, patient } from "../testing/patient.ts";
import { type TallyEvent, tally } from "../testing/tally.ts";
import { createEnvironmentServer } from "./environment-server.ts";

/** No stream is looked at for being idle, which would be a timer that is always there. */
const limits = {
  idleStreamMs: 0,
  createMs: callMs,
  joinMs: callMs,
  resetMs: callMs,
  stepMs: callMs,
};

/** How many scenarios are run on each clock; more with the environment variable. */
const runs = Number(process.env["MODEL_RUNS"] ?? 300);

/** The clocks, each with a model of its own. */
const clocks = ["lockstep", "turns", "realtime", "freeRunning", "wakeUp"] as const;

function tallyOf({ clock, ...policies }: Scenario["policies"], log: TallyEvent[]) {
  return tally({ ...policies, clock: clockOf(clock), log });
}

async function withPatience(scenario: Scenario): Promise<void> {
  const log: TallyEvent[] = [];
  const time = manualTime();
  const worlds = [patient(tallyOf(scenario.policies, log), oracleOf(scenario.mishap))];
  const server = createEnvironmentServer({ worlds, time, limits });
  await using carrier = memoryCarrier(server, true);
  await runScenario(scenario, { server, carrier, time, log, oneByOne: true });
}

async function overMemory(scenario: Scenario): Promise<void> {
  const log: TallyEvent[] = [];
  const time = manualTime();
  const worlds = [tallyOf(scenario.policies, log)];
  const server = createEnvironmentServer({ worlds, time, limits });
  await using carrier = memoryCarrier(server, false);
  await runScenario(scenario, { server, carrier, time, log, oneByOne: false });
}

function check(scenario: fc.Arbitrary<Scenario>, run: (scenario: Scenario) => Promise<void>) {
  const seed = process.env["MODEL_SEED"];
  const property = fc.asyncProperty(scenario, run);
  return fc.assert(property, { numRuns: runs, ...(seed ? { seed: Number(seed) } : {}) });
}

describe("the model of a server", () => {
  it.each(clocks)("agrees with the server on random requests, on the clock %s", async (kind) => {
    await check(scenarios(kind), overMemory);
  });

  it.each(clocks)("agrees when the world answers with promises, on the clock %s", async (kind) => {
    await check(scenarios(kind), withPatience);
  });

  it.each(clocks)(
    "behaviour 24: agrees when a world throws, rejects or hangs, on the clock %s",
    async (kind) => {
      const scenario = fc.tuple(scenarios(kind), mishaps);
      await check(
        scenario.map(([healthy, mishap]) => ({ ...healthy, mishap })),
        withPatience,
      );
    },
  );
});
