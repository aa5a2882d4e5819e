// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { type AgentId, lockstep, serve, wakeUp } from "@dm-env-rpc/server";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { arrayBuffers } from "./foraging/testing.ts";
import { gridworld, sleepAction } from "./world.ts";

const north = 1;

const sleeping = gridworld(wakeUp({ action: sleepAction }));

/** A column for one or two agents, with food out of their way. */
const settings = { layout: "..1\n...\n...\naa." };

describe("gridworld on the clock wakeUp", () => {
  let server: Awaited<ReturnType<typeof serve>>;
  beforeAll(async () => {
    server = await serve({ worlds: [sleeping] });
  });
  afterAll(() => server.close());

  it("moves in the first tick of a sleep and wakes after the last", async () => {
    await using connection = await connect(server.url);
    const world = await connection.createWorld({ settings });
    await using agent = await connection.join(world, { as: sleeping });
    await agent.reset();
    const { observation } = await agent.step({ move: north, sleep: 3 });
    expect(observation.step).toBe(3);
    expect([...observation.position.data]).toEqual([2, 0]);
  });

  it("ticks like lockstep for agents that do not send a sleep", async () => {
    await using connection = await connect(server.url);
    const world = await connection.createWorld({ settings });
    await using agent = await connection.join(world, { as: sleeping });
    await agent.reset();
    for (const step of [1, 2, 3]) {
      expect((await agent.step({ move: north })).observation.step).toBe(step);
    }
  });

  it("answers each agent when it wakes while others sleep", async () => {
    await using one = await connect(server.url);
    await using other = await connect(server.url);
    const world = await one.createWorld({ settings: { ...settings, min_agents: 2 } });
    await using sleeper = await one.join(world, { as: sleeping });
    await using awake = await other.join(world, { as: sleeping });
    await Promise.all([sleeper.reset(), awake.reset()]);
    const slept = sleeper.step({ move: north, sleep: 3 });
    for (const step of [1, 2, 3]) {
      expect((await awake.step({ move: north })).observation.step).toBe(step);
    }
    const { observation } = await slept;
    expect([observation.step, ...observation.position.data]).toEqual([3, 2, 0]);
  });

  it("wakes an agent when its sequence ends", async () => {
    await using connection = await connect(server.url);
    const world = await connection.createWorld({ settings: { ...settings, max_steps: 4 } });
    await using agent = await connection.join(world, { as: sleeping });
    await agent.reset();
    await agent.step({ sleep: 2 });
    const { state, observation } = await agent.step({ sleep: 4 });
    expect([state, observation.step]).toEqual(["interrupted", 4]);
  });

  it("refuses sleeps below a tick and beyond max_steps", async () => {
    await using connection = await connect(server.url);
    const world = await connection.createWorld({ settings: { ...settings, max_steps: 4 } });
    await using agent = await connection.join(world, { as: sleeping });
    await agent.reset();
    await expect(agent.step({ sleep: 0 })).rejects.toThrow(/sleep.*1/);
    await expect(agent.step({ sleep: 5 })).rejects.toThrow(/sleep.*4/);
  });
});

it("has no action to sleep on other clocks", async () => {
  const definition = gridworld(lockstep());
  await using server = await serve({ worlds: [definition] });
  await using connection = await connect(server.url);
  await using agent = await connection.join(await connection.createWorld());
  expect(Object.keys(agent.specs.actions)).toEqual(["move"]);
});

describe("the pictures of gridworld", () => {
  it("take bounded memory for any number of boards", async () => {
    const { create } = gridworld(lockstep());
    const random = { next: () => 0, seed: 1n };
    const boards = 10;
    const before = arrayBuffers();
    const drawn = Array.from({ length: boards }, async () => {
      const world = await create({ settings: { height: 128, width: 128 }, random } as never);
      const agents = [1, 2] as AgentId[];
      for (const agent of agents) {
        world.join?.(agent, {} as never);
      }
      world.start?.({ agents } as never);
      world.observe.rgb(1 as AgentId);
      return world;
    });
    const worlds = await Promise.all(drawn);
    const picture = 128 * 8 * 128 * 8 * 3;
    await expect.poll(() => arrayBuffers() - before).toBeLessThan(7 * picture);
    expect(worlds).toHaveLength(boards);
  });
});
