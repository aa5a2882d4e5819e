// SPDX-License-Identifier: Apache-2.0
import { manualTime } from "@dm-env-rpc/transport/internal";
import fc from "fast-check";
import { describe, it } from "vitest";
import { clockNames } from "../../testing/clocks.ts";
import { http2Carrier, memoryCarrier } from "../../testing/model/carriers.ts";
import type { ClockOptions } from "../../testing/model/clock-models.ts";
import {
  type Draft,
  mishaps,
  type Operation,
  type Scenario,
  scenarios,
  seatKeys,
} from "../../testing/model/operations.ts";
import type { ObservationName } from "../../testing/model/requests.ts";
import { clockOf, runScenario } from "../../testing/model/run.ts";
import { callMs } from "../../testing/model/turns.ts";
import { oraclesOf, patient } from "../../testing/patient.ts";
import { type TallyEvent, tally } from "../../testing/tally.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

/** Idle checks are off, because their timer would always be pending. */
const limits = {
  idleStreamMs: 0,
  createMs: callMs,
  joinMs: callMs,
  resetMs: callMs,
  stepMs: callMs,
};

/** Number of scenarios on each clock; set by an environment variable. */
const runs = Number(process.env["MODEL_RUNS"] ?? 300);

/**
 * Seed of the scenarios: fixed in a short run, random in a long one. The order in which requests of
 * two connections are processed is not guaranteed, and in one of some ten thousand scenarios a
 * response depends on it, so examine a divergence before you report it.
 */
const seed =
  process.env["MODEL_SEED"] ?? (process.env["MODEL_RUNS"] === undefined ? "1" : undefined);

/** Number of scenarios on worlds that return promises, and on worlds that fail. */
const patientRuns = Math.ceil(runs / 3);

/** Number of scenarios over HTTP/2. */
const http2Runs = Number(process.env["MODEL_HTTP2_RUNS"] ?? 10);

/** A long run has no fixed time limit. */
const timeout = 60_000 + 100 * runs + 5000 * http2Runs;

function tallyOf({ clock, ...policies }: Scenario["policies"], logs: TallyEvent[][]) {
  return tally({ ...policies, clock: clockOf(clock), logs });
}

async function withPatience(scenario: Scenario): Promise<void> {
  const logs: TallyEvent[][] = [];
  const time = manualTime();
  const worlds = [patient(tallyOf(scenario.policies, logs), oraclesOf(scenario.mishap))];
  const server = createEnvironmentServer({ worlds, time, limits });
  await using carrier = memoryCarrier(server, true);
  await runScenario(scenario, { server, carrier, time, logs, oneByOne: true });
}

async function overMemory(scenario: Scenario): Promise<void> {
  const logs: TallyEvent[][] = [];
  const time = manualTime();
  const worlds = [tallyOf(scenario.policies, logs)];
  const server = createEnvironmentServer({ worlds, time, limits });
  await using carrier = memoryCarrier(server, false);
  await runScenario(scenario, { server, carrier, time, logs, oneByOne: false });
}

async function overHttp2(scenario: Scenario): Promise<void> {
  const logs: TallyEvent[][] = [];
  const time = manualTime();
  const worlds = [tallyOf(scenario.policies, logs)];
  const server = createEnvironmentServer({ worlds, time, limits });
  await using carrier = await http2Carrier(server);
  await runScenario(scenario, { server, carrier, time, logs, oneByOne: false });
}

function check(
  scenario: fc.Arbitrary<Scenario>,
  numRuns: number,
  run: (scenario: Scenario) => Promise<void>,
  options: { readonly endOnFailure?: boolean } = {},
): Promise<void> {
  const property = fc.asyncProperty(scenario, run);
  return fc.assert(property, { numRuns, ...options, ...(seed ? { seed: Number(seed) } : {}) });
}

/** Creates a scenario of two agents, each with a seat key, in sequences of one tick. */
function scenarioOf(clock: ClockOptions, ...operations: readonly Operation[]): Scenario {
  return {
    policies: {
      clock,
      onLeave: "continue",
      onDrop: undefined,
      onReset: "respawn",
      lateEntry: "now",
      onDestroy: "refuse",
      resetDeadlineMs: 1009,
      drainDeadlineMs: 3023,
    },
    settings: { length: 1, cut: false, start: 0, min_agents: 1, max_agents: 2 },
    agents: 2,
    operations,
  };
}

function send(connection: number, ...requests: readonly Draft[]): Operation {
  return { do: "send", connection, requests };
}

function stepFor(...requested: readonly ObservationName[]): Draft {
  return { kind: "step", action: 1, sleep: 0, requested };
}

function joinWith(key: (typeof seatKeys)[number]): Draft {
  return { kind: "join", world: 0, width: 2, key };
}

const step = stepFor();
const resetWorld: Draft = { kind: "resetWorld", world: 0, start: "none" };

it("the model does not expect a response to an agent that was removed from its world", async () => {
  // Agent 0 misses its deadline and is removed; then the step hangs, and agent 1 leaves meanwhile.
  const scenario = scenarioOf(
    { kind: "wakeUp", deadlineMs: 71, policy: "leave" },
    send(0, step),
    send(1, step),
    send(1, step),
    { do: "pass", ms: 150 },
    { do: "drop", connection: 1 },
  );
  await withPatience({ ...scenario, mishap: { call: "step", number: 1, fate: "hangs" } });
});

describe("behaviour 77: when another connection takes the seat of an agent, the model agrees that", () => {
  it("a withdrawn step is not repeated", async () => {
    const acting = stepFor("total", "tick");
    await overMemory(
      scenarioOf(
        { kind: "lockstep", deadlineMs: 71, policy: "repeat-last" },
        send(0, acting),
        send(1, acting),
        send(0, acting),
        send(2, joinWith(seatKeys[0])),
      ),
    );
  });

  it("the sequence after a reset includes the resumed seat", async () => {
    await withPatience(
      scenarioOf(
        { kind: "realtime", periodMs: 50, newest: false, policy: "repeat-last" },
        send(1, step),
        { do: "drop", connection: 0 },
        send(2, resetWorld),
        send(0, joinWith(seatKeys[1]), step),
      ),
    );
  });

  it("the seat is kept when the first connection leaves at the same moment", async () => {
    await overMemory(
      scenarioOf(
        { kind: "freeRunning" },
        send(0, step),
        send(1, step),
        send(2, resetWorld, joinWith(seatKeys[0])),
        send(0, step, step),
        { do: "half-close", connection: 0 },
        // The reset waits for agent 2 until its deadline; then the join and the leave of agent 1
        // are processed together.
        { do: "pass", ms: 1009 },
        send(2, step),
      ),
    );
  });
});

describe.each(clockNames)("the model of a server, on the clock %s,", (kind) => {
  it("agrees with the server on random requests", { timeout }, async () => {
    await check(scenarios(kind), runs, overMemory);
  });

  it("agrees over HTTP/2", { timeout }, async () => {
    // Each missing response costs a timeout, which is too slow for shrinking.
    await check(scenarios(kind, 30), http2Runs, overHttp2, { endOnFailure: true });
  });

  it("agrees when the world answers with promises", { timeout }, async () => {
    await check(scenarios(kind), patientRuns, withPatience);
  });

  it("behaviour 24: agrees when a world throws, rejects or hangs", { timeout }, async () => {
    const broken = fc
      .tuple(scenarios(kind), mishaps)
      .map(([healthy, mishap]) => ({ ...healthy, mishap }));
    await check(broken, patientRuns, withPatience);
  });
});
