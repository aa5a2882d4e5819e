// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { connected, type Script } from "../testing/scripted-server.ts";
import type { DynamicAction, DynamicObservation } from "./definition.ts";
import type { Environment } from "./environment.ts";
import { run } from "./run.ts";
import type { StepType, TimeStep } from "./time-step.ts";

async function joined(script: Script = {}) {
  const { connection, server } = await connected(script);
  return { connection, server, environment: await connection.join("world") };
}

/** Creates an agent that records the steps it receives. */
function remembering() {
  const seen: StepType[] = [];
  return {
    seen,
    step(step: TimeStep<DynamicObservation>): DynamicAction {
      seen.push(step.stepType);
      return { move: 1 };
    },
  };
}

describe("behaviour 50: the run loops of dm_env", () => {
  test("a continuing loop steps across the ends of sequences", async () => {
    const { connection, environment } = await joined();
    await using _ = connection;
    const agent = remembering();

    let step = await environment.reset();
    for (let i = 0; i < 7; i++) {
      const action = agent.step(step);
      step = await environment.step(action);
    }
    expect(agent.seen).toEqual(["first", "mid", "last", "first", "mid", "last", "first"]);
  });

  test("a loop over two sequences resets before each", async () => {
    const { connection, environment } = await joined();
    await using _ = connection;
    const agent = remembering();

    for (let sequence = 0; sequence < 2; sequence++) {
      let step = await environment.reset();
      while (true) {
        const action = agent.step(step);
        step = await environment.step(action);
        if (step.last()) {
          agent.step(step);
          break;
        }
      }
    }
    expect(agent.seen).toEqual(["first", "mid", "last", "first", "mid", "last"]);
  });

  test("a loop truncates sequences manually with a copied time step", async () => {
    const { connection, environment } = await joined({ sequenceLength: 1000 });
    await using _ = connection;
    const agent = remembering();

    const stepLimit = 3;
    for (let sequence = 0; sequence < 2; sequence++) {
      let step = await environment.reset();
      let stepCounter = 1;
      while (true) {
        const action = agent.step(step);
        step = await environment.step(action);
        if (stepCounter === stepLimit) {
          step = { ...step, stepType: "last" };
        }
        if (step.last()) {
          agent.step(step);
          break;
        }
        stepCounter++;
      }
    }
    expect(agent.seen).toEqual(["first", "mid", "mid", "last", "first", "mid", "mid", "last"]);
  });
});

describe("run", () => {
  async function types(environment: Environment, options: Parameters<typeof run>[2]) {
    const yielded: StepType[] = [];
    for await (const step of run(environment, () => ({ move: 1 }), options)) {
      yielded.push(step.stepType);
    }
    return yielded;
  }

  test("yields every step until it has yielded the given number of sequences or steps", async () => {
    const { connection, environment } = await joined();
    await using _ = connection;
    expect(await types(environment, { sequences: 2 })).toEqual([
      "first",
      "mid",
      "last",
      "first",
      "mid",
      "last",
    ]);
    expect(await types(environment, { steps: 4 })).toEqual(["first", "mid", "last", "first"]);
    expect(await types(environment, { sequences: 0 })).toEqual([]);
  });

  test("calls the policy for every step, including last ones", async () => {
    const { connection, server, environment } = await joined();
    await using _ = connection;
    const agent = remembering();
    for await (const _step of run(environment, (step) => agent.step(step), { sequences: 1 })) {
    }
    expect(agent.seen).toEqual(["first", "mid", "last"]);
    expect(server.requests.filter(({ case: kind }) => kind === "step")).toHaveLength(3);
  });

  test("leaves no request open when its caller breaks out of the loop", async () => {
    const { connection, server, environment } = await joined({ sequenceLength: 1000 });
    await using _ = connection;
    let steps = 0;
    for await (const _step of run(environment, async () => ({ move: 1 }))) {
      if (++steps === 3) {
        break;
      }
    }
    expect(server.requests.filter(({ case: kind }) => kind === "step")).toHaveLength(3);
    expect((await environment.step({})).observation).toEqual({ tick: 3 });
  });

  test("throws the policy's error, and the environment continues", async () => {
    const { connection, environment } = await joined();
    await using _ = connection;
    const failing = run(environment, () => {
      throw new Error("no idea");
    });
    await failing.next();
    await expect(failing.next()).rejects.toThrow("no idea");
    expect((await environment.step({})).mid()).toBe(true);
  });
});
