// SPDX-License-Identifier: Apache-2.0
import { defineWorld, withDefault } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** Counters of all worlds of a server. */
export interface WorldCounters {
  /** Actions that a world's `step` received. */
  actions: number;
  ticks: number;
  sequences: number;
  /** Agents that joined, and agents that left or whose world ended. */
  joined: number;
  left: number;
  created: number;
  destroyed: number;
}

/** Returns counters at zero. */
export function zeroCounters(): WorldCounters {
  return { actions: 0, ticks: 0, sequences: 0, joined: 0, left: 0, created: 0, destroyed: 0 };
}

/** Defines the world of the soak, which counts ticks and the actions of each agent. A sequence has 50 ticks. */
export function counting(done: WorldCounters) {
  return defineWorld({
    name: "counting",
    settings: { agents: withDefault(t.int32({ min: 1, max: 1000 }), 1) },
    actions: { add: t.int32() },
    observations: { mine: t.int32(), reward: t.float32() },
    agents: ({ agents }) => ({ min: agents, max: agents }),
    create() {
      const mine = new Map<number, number>();
      let tick = 0;
      done.created += 1;
      return {
        join(agent) {
          done.joined += 1;
          mine.set(agent, 0);
        },
        leave(agent) {
          done.left += 1;
          mine.delete(agent);
        },
        start() {
          done.sequences += 1;
          tick = 0;
        },
        step(actions) {
          tick += 1;
          done.ticks += 1;
          for (const [agent, { add = 0 }] of actions) {
            done.actions += add;
            mine.set(agent, (mine.get(agent) ?? 0) + add);
          }
        },
        status: () => (tick < 50 ? "running" : "terminated"),
        observe: { mine: (agent) => mine.get(agent) ?? 0, reward: () => 1 },
        destroy() {
          done.destroyed += 1;
        },
      };
    },
  });
}
