// SPDX-License-Identifier: Apache-2.0
import { type Tensor, t } from "@dm-env-rpc/tensor-codec";
import { type RawServer, rawServer } from "@dm-env-rpc/tests-processes";
import { expect, test } from "vitest";
import { scriptedWorld } from "../testing/scripted-server.ts";
import { remoteSlots, vectorize } from "./index.ts";

const script = { observations: { tick: t.int32() }, sequenceLength: 9 };
const world = () => {
  const answer = scriptedWorld(script);
  return (request: Parameters<typeof answer>[0]) => answer(request);
};

test("256 slots on 8 servers continue when one server is killed and restarted, and no other slot loses a step", async () => {
  const servers: RawServer[] = await Promise.all(Array.from({ length: 8 }, () => rawServer(world)));
  const addresses = servers.map(({ address }) => address);
  const killed = 3;
  await using vector = await vectorize(256, remoteSlots(addresses), {
    restart: { initialMs: 5, maxMs: 50, maxAttempts: 1_000 },
  });
  await vector.reset();
  const actions = Array.from({ length: 256 }, () => ({ move: 1 }));
  const ofKilled = (slot: number): boolean => slot % 8 === killed;
  let failures = 0;
  let back = 0;
  const returned = new Set<number>();
  for (let step = 1; back < 20; step++) {
    if (step === 10) {
      await servers[killed]?.[Symbol.asyncDispose]();
    }
    if (step === 20) {
      servers[killed] = await rawServer(world, servers[killed]?.port);
    }
    const { ids, observation, valid, failures: why, first } = await vector.step(actions);
    const ticks = observation["tick"] as Tensor<"int32">;
    for (const slot of ids) {
      if (ofKilled(slot)) {
        if (why[slot] !== null) {
          failures++;
        }
        if (step > 20 && first[slot] === 1) {
          returned.add(slot);
        }
      } else {
        // A sequence has ten time steps: every one arrives, in order.
        expect([slot, valid[slot], ticks.data[slot]]).toEqual([slot, 1, step % 10]);
      }
    }
    if (returned.size === 32) {
      back++;
    }
  }
  expect(failures).toBe(32);
  expect(returned.size).toBe(32);
  await vector.close();
  await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
});
