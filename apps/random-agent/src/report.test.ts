// SPDX-License-Identifier: Apache-2.0
import { timeStep } from "@dm-env-rpc/client";
import { expect, test } from "vitest";
import { progressLine, summaryJson, summaryText } from "./report.ts";
import { Tally, total } from "./tally.ts";

test("a tally counts steps, completed sequences and their mean return", () => {
  const tally = new Tally(3);
  expect(tally.meanReturn).toBeNull();
  tally.add(timeStep("first", "running", null, null, {}));
  tally.add(timeStep("mid", "running", 1, 1, {}));
  tally.add(timeStep("last", "terminated", 2, 0, {}));
  tally.add(timeStep("first", "running", null, null, {}));
  tally.add(timeStep("last", "interrupted", 5, 1, {}));
  tally.add(timeStep("first", "running", null, null, {}));
  tally.add(timeStep("mid", "running", 100, 1, {}));
  expect(tally.toJSON()).toEqual({ agent: 3, steps: 7, sequences: 2, meanReturn: 4 });
});

test("the total weights each agent's mean by its sequences", () => {
  const agents = [
    { agent: 0, steps: 10, sequences: 3, meanReturn: 1 },
    { agent: 1, steps: 5, sequences: 1, meanReturn: 5 },
    { agent: 2, steps: 1, sequences: 0, meanReturn: null },
  ];
  expect(total(agents)).toEqual({ steps: 16, sequences: 4, meanReturn: 2 });
  expect(total([])).toEqual({ steps: 0, sequences: 0, meanReturn: null });
});

const agents = [{ agent: 0, steps: 1500, sequences: 1, meanReturn: 0.25 }];

test("progress is one line, optionally with a bar", () => {
  const progress = { world: "w", expectedSteps: 6000, agents };
  const text = "25%  1,500 steps  750 steps/s  1 sequence  mean return 0.250";
  expect(progressLine(progress, 2, false)).toBe(` ${text}`);
  expect(progressLine(progress, 2, true)).toBe(`[██░░░░░░]  ${text}`);
});

test("the summary is text for people and one JSON object for programs", () => {
  const summary = {
    world: "w",
    seed: 2n ** 63n,
    agents,
    steps: 1500,
    sequences: 1,
    meanReturn: 0.25,
    seconds: 2,
    stepsPerSecond: 750,
    endedEarly: false,
  };
  expect(summaryText(summary)).toBe(
    '1 agent in world "w", seed 9223372036854775808\n' +
      "  agent 0  1,500 steps, 1 sequence completed, mean return 0.250\n" +
      "  total    1,500 steps, 1 sequence completed, mean return 0.250\n  2.00 s, 750 steps/s\n",
  );
  const json = summaryJson(summary);
  expect(json.trimEnd()).not.toContain("\n");
  expect(JSON.parse(json)).toEqual({ ...summary, seed: "9223372036854775808" });
});

test("the summary of matches lists their worlds", () => {
  const summary = {
    worlds: [
      { address: "http://a:1", world: "gridworld-1", agents: [0, 2] },
      { address: "http://b:1", world: "gridworld-1", agents: [1] },
    ],
    seed: 7n,
    agents,
    steps: 1500,
    sequences: 1,
    meanReturn: 0.25,
    seconds: 2,
    stepsPerSecond: 750,
    endedEarly: false,
  };
  expect(summaryText(summary)).toMatch(
    /^1 agent in 2 worlds on 2 servers, seed 7\n {2}gridworld-1 at http:\/\/a:1: agents 0, 2\n {2}gridworld-1 at http:\/\/b:1: agents 1\n {2}agent 0 /,
  );
  const worlds = Array.from({ length: 12 }, (_, n) => ({ address: "a", world: `w${n}`, agents }));
  expect(
    summaryText({ ...summary, worlds: worlds.map((world) => ({ ...world, agents: [0] })) }),
  ).toMatch(/w9 at a: agents 0\n {2}and 2 more worlds\n/);
});
