// SPDX-License-Identifier: Apache-2.0
import { EnvironmentStateType } from "@dm-env-rpc/protocol";
import { expect, test } from "vitest";
import { connected, type Script } from "../testing/scripted-server.ts";
import { gymnasium } from "./gymnasium.ts";

async function gym(script: Script) {
  const { connection } = await connected({ observe: (_name, tick) => tick, ...script });
  return { connection, env: gymnasium(await connection.join("world")) };
}

test.each([
  [EnvironmentStateType.TERMINATED, { terminated: true, truncated: false }, 0],
  [EnvironmentStateType.INTERRUPTED, { terminated: false, truncated: true }, 1],
] as const)("a sequence that ends in state %i is %o", async (end, flags, discount) => {
  const { connection, env } = await gym({ end });
  await using _ = connection;
  expect(await env.reset()).toEqual({
    observation: { tick: 0 },
    info: { state: "running", discount: 1 },
  });
  expect(await env.step({ move: 1 })).toMatchObject({
    observation: { tick: 1 },
    reward: 1,
    terminated: false,
    truncated: false,
  });
  expect(await env.step({ move: 1 })).toMatchObject({ ...flags, reward: 2, info: { discount } });
});

test("a step before a reset or after an end rejects, and asks for a reset", async () => {
  const { connection, env } = await gym({ sequenceLength: 1 });
  await using _ = connection;
  await expect(env.step({})).rejects.toThrow(/call reset\(\) first/);
  await env.reset();
  await env.step({});
  await expect(env.step({})).rejects.toMatchObject({ code: "FAILED_PRECONDITION" });
  await env.reset();
  await env.step({});
  await env.close();
});
