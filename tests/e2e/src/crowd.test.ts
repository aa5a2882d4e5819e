// SPDX-License-Identifier: Apache-2.0
import { connect } from "@dm-env-rpc/client";
import { expect, test } from "vitest";
import { gridworldServer } from "./programs.ts";

test("1,000 agents create a world and join it at once, under the default limits", async () => {
  await using server = await gridworldServer();
  const play = async (): Promise<string> => {
    await using connection = await connect(server.address, { connectTimeoutMs: 120_000 });
    const world = await connection.createWorld();
    await using environment = await connection.join(world);
    return (await environment.reset()).stepType;
  };
  const results = await Promise.allSettled(Array.from({ length: 1_000 }, play));
  expect(
    new Set(results.map((result) => String("value" in result ? result.value : result.reason))),
  ).toEqual(new Set(["first"]));
  expect(server.stderr).toBe("");
});
