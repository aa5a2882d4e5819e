// SPDX-License-Identifier: Apache-2.0
import { t } from "@dm-env-rpc/tensor-codec";
import { expect, it } from "vitest";
import { connectPeer, joinedPeers, type Peer } from "../../testing/peer.ts";
import { freeRunning } from "../clocks/free-running.ts";
import type { AgentId } from "../definition/agent.ts";
import { defineWorld } from "../definition/world.ts";
import { createEnvironmentServer } from "../host/environment-server.ts";

/**
 * The action `hit` names an agent. A hit affects the agent that acts and the named agent, whose
 * sequence ends after three hits.
 */
function duel(log: string[]) {
  return defineWorld({
    name: "duel",
    actions: { hit: t.int32() },
    observations: { hits: t.int32(), reward: t.float32() },
    clock: freeRunning(),
    create() {
      const hits = new Map<number, number>();
      let affected: AgentId[] = [];
      const hitsOf = (agent: number): number => hits.get(agent) ?? 0;
      return {
        step(actions) {
          for (const [agent, { hit = 0 }] of actions) {
            hits.set(hit, hitsOf(hit) + 1);
            affected = [agent, hit as AgentId, agent, 99 as AgentId];
          }
        },
        affected: () => affected,
        status(agent) {
          log.push(`status ${agent}`);
          return hitsOf(agent) < 3 ? "running" : "terminated";
        },
        observe: {
          hits: hitsOf,
          reward(agent) {
            log.push(`reward ${agent}`);
            return hitsOf(agent) === 0 ? 1 : -1;
          },
        },
      };
    },
  });
}

it("`reward` and `status` are read only for agents that a tick affected, once each", async () => {
  const log: string[] = [];
  const server = createEnvironmentServer({ worlds: [duel(log)] });
  const world = await connectPeer(server).createWorld();
  const [one, two, three] = (await joinedPeers(server, world, 3)) as [Peer, Peer, Peer];
  await Promise.all([one.step(), two.step(), three.step()]);
  expect(log).toEqual([]);
  expect((await one.step({ hit: 2 })).observations).toEqual({ hits: 0, reward: 1 });
  expect(log).toEqual(["status 1", "status 2", "reward 1"]);
  log.length = 0;
  expect((await three.step({ hit: 3 })).observations).toEqual({ hits: 1, reward: -1 });
  expect(log).toEqual(["reward 2", "status 3", "reward 3"]);
  log.length = 0;
  await one.step({ hit: 2 });
  await one.step({ hit: 2 });
  const last = await two.step({ hit: 1 });
  expect(last).toEqual({ state: "TERMINATED", observations: { hits: 3, reward: -3 } });
  expect(log.filter((asked) => asked.endsWith("3"))).toEqual([]);
  log.length = 0;
  await one.step({ hit: 2 });
  expect(log).toEqual(["status 1", "reward 1"]);
});
