// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { serve } from "@dm-env-rpc/server";
import { expect, it } from "vitest";
import { cartPole } from "./environment.ts";

it("behaviour 71: a slot of the environment in arrays plays like a single environment", async () => {
  await using server = await serve({ worlds: [cartPole] });
  await using connection = await connect(server.url);
  const world = await connection.createWorld({ settings: { max_steps: 12 } });
  await using batch = await connection.join(world, { as: cartPole, batch: 3, seed: 5n });
  const agents = await Promise.all(
    [5n, 6n, 7n].map(async (seed) => {
      const own = await connect(server.url);
      return await own.join(world, { as: cartPole, settings: { seed } });
    }),
  );
  let rows = (await batch.reset()).timeSteps;
  let steps = await Promise.all(agents.map((agent) => agent.reset()));
  for (let i = 0; i < 100; i++) {
    expect(rows).toEqual(steps);
    const push = Int32Array.from(agents, (_, slot) => (slot === 0 ? 1 : (i + slot) % 2));
    rows = (await batch.step({ push })).timeSteps;
    steps = await Promise.all(agents.map((agent, slot) => agent.step({ push: push[slot] ?? 0 })));
  }
  await Promise.all(agents.map(({ connection: own }) => own.close()));
});
