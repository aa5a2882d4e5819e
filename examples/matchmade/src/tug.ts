import { type AgentId, defineWorld } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** Two agents pull at a rope; the first to pull its middle `length` units to its side wins. */
export const tug = defineWorld({
  name: "tug",
  settings: { length: t.int32({ min: 1, max: 100 }) },
  actions: { pull: t.int8({ min: 0, max: 9 }) },
  observations: { middle: t.int32(), reward: t.float32() },
  agents: { min: 2, max: 2 },

  create({ settings }) {
    const sides = new Map<AgentId, number>();
    let middle = 0;
    const isOver = () => Math.abs(middle) >= settings.length;
    return {
      join: (agent) => void sides.set(agent, [...sides.values()].includes(1) ? -1 : 1),
      leave: (agent) => sides.delete(agent),
      start: () => {
        middle = 0;
      },
      step(actions) {
        for (const [agent, { pull = 0 }] of actions) {
          middle += pull * (sides.get(agent) ?? 0);
        }
      },
      status: () => (isOver() ? "terminated" : "running"),
      observe: {
        middle: (agent) => middle * (sides.get(agent) ?? 0),
        reward: (agent) => (isOver() ? Math.sign(middle * (sides.get(agent) ?? 0)) : 0),
      },
    };
  },
});
