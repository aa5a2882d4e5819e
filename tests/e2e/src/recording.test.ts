// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { record, replay } from "@dm-env-rpc/client/recording";
import { sample } from "@dm-env-rpc/tensor-codec";
import { describe, expect, it } from "vitest";
import { gridworldServer } from "./programs.ts";

/** Records one agent's run in a world with seed 7. */
async function recorded(address: string): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  await using connection = await connect(address);
  record(connection, { write: (bytes) => chunks.push(bytes) });
  const world = await connection.createWorld({ settings: { seed: 7n, max_steps: 40 } });
  const environment = await connection.join(world);
  const specs = Object.entries(environment.specs.actions);
  let turn = 0;
  const choose = (): number => (turn++ % 7) / 7;
  for (let i = 0; i < 100; i++) {
    const action = specs.flatMap(([name, spec]) =>
      "dtype" in spec ? [[name, sample(spec as never, choose)] as const] : [],
    );
    await environment.step(Object.fromEntries(action));
  }
  await environment.close();
  await connection.destroyWorld(world);
  return Buffer.concat(chunks);
}

describe("a run recorded on gridworld", () => {
  it("replays without a difference, and with another seed reports the first one", async () => {
    await using server = await gridworldServer();
    const bytes = await recorded(server.address);
    expect(await replay(bytes, server.address)).toEqual({
      requests: 104,
      steps: 100,
      difference: undefined,
    });
    const other = await replay(bytes, server.address, {
      createSettings: { seed: 8n, max_steps: 40 },
    });
    expect(other.difference).toMatchObject({
      kind: "step",
      where: expect.stringMatching(/^observation "\w+", element \d+$/),
    });
  });
});
