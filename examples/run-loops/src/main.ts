// The three run loops of dm_env's documentation.
import { connect, type TimeStep } from "@dm-env-rpc/client";
import { serve } from "@dm-env-rpc/server";
import { catching } from "./catch.ts";

/** Moves at random, and counts sequences and rewards. */
const agent = {
  sequences: 0,
  return: 0,
  step(timeStep: TimeStep<unknown>): { move: number } {
    this.return += timeStep.reward ?? 0;
    if (timeStep.last()) {
      this.sequences += 1;
    }
    return { move: Math.floor(Math.random() * 3) };
  },
};

await using server = await serve({ worlds: [catching] });
await using connection = await connect(server.url);
const world = await connection.createWorld();
await using environment = await connection.join(world, { as: catching });

// Continuing: step() after the end of a sequence starts the next one.
let timeStep = await environment.reset();
for (let i = 0; i < 100; i++) {
  const action = agent.step(timeStep);
  timeStep = await environment.step(action);
}
console.log(`continuing: ${agent.sequences} sequences in 100 steps`);

// A set number of sequences.
agent.sequences = 0;
for (let sequence = 0; sequence < 5; sequence++) {
  timeStep = await environment.reset();
  while (true) {
    const action = agent.step(timeStep);
    timeStep = await environment.step(action);
    if (timeStep.last()) {
      agent.step(timeStep);
      break;
    }
  }
}
console.log(`set number: ${agent.sequences} sequences`);

// Manual truncation: the agent treats a step in the middle of a sequence as its last.
agent.sequences = 0;
const stepLimit = 4;
for (let sequence = 0; sequence < 5; sequence++) {
  timeStep = await environment.reset();
  for (let stepCounter = 1; ; stepCounter++) {
    const action = agent.step(timeStep);
    timeStep = await environment.step(action);
    if (stepCounter === stepLimit) {
      timeStep = { ...timeStep, stepType: "last" };
    }
    if (timeStep.last()) {
      agent.step(timeStep);
      break;
    }
  }
}
console.log(`manual truncation: ${agent.sequences} sequences of ${stepLimit} steps`);
