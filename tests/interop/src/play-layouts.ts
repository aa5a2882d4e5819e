// SPDX-License-Identifier: Apache-2.0
// Plays scenarios of gridworld, one per line of JSON on standard input, with agents that
// use sessions and the codec, and prints the observations of every agent as a line of JSON.
import { createInterface } from "node:readline";
import { connect } from "@dm-env-rpc/client";
import { gridworld } from "@dm-env-rpc/gridworld-server";
import { createEnvironmentServer, lockstep } from "@dm-env-rpc/server";
import { memoryStreamPair } from "@dm-env-rpc/transport";

/** A scenario: the moves of each agent, tick by tick. */
interface Scenario {
  readonly settings: Readonly<Record<string, string | number | boolean>>;
  readonly agents: number;
  readonly moves: readonly (readonly number[])[];
}

const definition = gridworld(lockstep());
const server = createEnvironmentServer({ worlds: [definition] });

/** Opens a connection without a network. */
async function open() {
  const [client, stream] = memoryStreamPair();
  server.accept(stream);
  return await connect({ stream: client });
}

const connections = await Promise.all(Array.from({ length: 8 }, open));
const host = await open();

async function play({ settings, agents, moves }: Scenario) {
  const world = await host.createWorld({ settings });
  const environments = await Promise.all(
    connections
      .slice(0, agents)
      .map((connection) =>
        connection.join(world, { as: definition, observations: ["grid", "agents", "food"] }),
      ),
  );
  // All steps are in flight at once; those after the end of the sequence belong to the next one.
  const played = await Promise.all(
    environments.map((environment, i) =>
      environment.stepMany([{}, ...moves.map((tick) => ({ move: tick[i] ?? 0 }))]),
    ),
  );
  const last = played[0]?.findIndex((step) => step.last()) ?? -1;
  const ticks = (played[0] ?? []).slice(0, last < 0 ? undefined : last + 1).map((first, tick) => {
    const steps = played.flatMap((agent) => agent[tick] ?? []);
    return {
      state: first.state,
      rewards: steps.map(({ reward }) => reward),
      agents: Array.from(first.observation.agents.data),
      food: Array.from(first.observation.food.data),
      grids: steps.map(({ observation }) => Buffer.from(observation.grid.data).toString("base64")),
    };
  });
  await Promise.all(environments.map((environment) => environment.close()));
  await host.destroyWorld(world);
  return ticks;
}

for await (const line of createInterface({ input: process.stdin })) {
  const ticks = await play(JSON.parse(line) as Scenario);
  if (!process.stdout.write(`${JSON.stringify(ticks)}\n`)) {
    await new Promise((resolve) => process.stdout.once("drain", resolve));
  }
}
await server.close();
