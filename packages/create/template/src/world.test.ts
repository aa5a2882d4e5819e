import { connect } from "@dm-env-rpc/client";
import { createEnvironmentServer } from "@dm-env-rpc/server";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import { expect, onTestFinished, test } from "vitest";
import { world } from "./world.ts";

/** Serves the world in memory and returns a function that connects to it. */
function worldInMemory() {
  const server = createEnvironmentServer({ worlds: [world] });
  onTestFinished(() => server.close());
  return {
    connect() {
      const [client, stream] = memoryStreamPair();
      server.accept(stream);
      return connect({ stream: client });
    },
  };
}

/** Returns the move towards the coin. */
function towards(position: Int32Array, coin: Int32Array): number {
  const [x = 0, y = 0] = position;
  const [coinX = 0, coinY = 0] = coin;
  if (x !== coinX) {
    return x < coinX ? 2 : 4;
  }
  return y < coinY ? 3 : 1;
}

test("an agent that walks to the coins wins", async () => {
  const connection = await worldInMemory().connect();
  const name = await connection.createWorld({ settings: { size: 8, goal: 3, seed: 1n } });
  const environment = await connection.join(name, { as: world });
  let step = await environment.reset();
  let total = 0;
  while (!step.last()) {
    const { position, coin } = step.observation;
    step = await environment.step({ move: towards(position.data, coin.data) });
    total += step.reward ?? 0;
  }
  expect(step.observation.coins).toBe(3);
  expect(total).toBe(3);
});

test("agents that share a world see the same coin", async () => {
  const server = worldInMemory();
  const first = await server.connect();
  const second = await server.connect();
  const name = await first.createWorld({ settings: { size: 8, seed: 2n } });
  const one = await first.join(name, { as: world });
  const other = await second.join(name, { as: world });
  const [seenByOne, seenByOther] = await Promise.all([one.reset(), other.reset()]);
  expect(seenByOne.observation.coin).toEqual(seenByOther.observation.coin);
});

test("worlds with the same seed are equal, and worlds without a seed differ", async () => {
  const server = worldInMemory();
  const coins = async (settings: { seed?: bigint }) => {
    const connection = await server.connect();
    const name = await connection.createWorld({ settings: { size: 64, ...settings } });
    const environment = await connection.join(name, { as: world });
    return `${(await environment.reset()).observation.coin.data}`;
  };
  expect(await coins({ seed: 4n })).toBe(await coins({ seed: 4n }));
  const seen = new Set([await coins({}), await coins({}), await coins({}), await coins({})]);
  expect(seen.size).toBeGreaterThan(1);
});

test("an agent stays on the board", async () => {
  const connection = await worldInMemory().connect();
  const name = await connection.createWorld({ settings: { size: 2, goal: 100, seed: 3n } });
  const environment = await connection.join(name, { as: world });
  let step = await environment.reset();
  for (let count = 0; count < 3; count += 1) {
    step = await environment.step({ move: 4 });
  }
  expect(step.observation.position.data[0]).toBe(0);
});

test("an unknown move is refused", async () => {
  const connection = await worldInMemory().connect();
  const name = await connection.createWorld();
  const environment = await connection.join(name, { as: world });
  await environment.reset();
  await expect(environment.step({ move: 5 })).rejects.toThrow(/move.*5/);
});
