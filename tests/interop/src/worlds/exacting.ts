// SPDX-License-Identifier: Apache-2.0
import { type AgentId, defineWorld, optional, withDefault } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** A world that requires settings, some of them nested, for a create, a join and a reset. */
export const exacting = defineWorld({
  name: "exacting",
  settings: {
    size: t.int32({ min: 1, max: 10 }),
    "map.name": t.string(),
    "map.rows": t.int32([2]),
    seed: optional(t.uint64()),
  },
  joinSettings: { team: t.string(), "look.colour": withDefault(t.uint8([3]), zero()) },
  resetSettings: { team: optional(t.string()) },
  resetWorldSettings: { seed: optional(t.uint64()) },
  actions: { move: t.int32({ min: -1, max: 1 }) },
  observations: ({ create }) => ({
    place: t.int32([create.size]),
    map: { name: t.string(), rows: t.int32([2]) },
    look: { team: t.string(), colour: t.uint8([3]) },
    reward: t.float32(),
  }),
  create({ settings }) {
    const looks = new Map<AgentId, { team: string; colour: Uint8Array }>();
    return {
      join: (agent, { team, "look.colour": { data } }) => {
        looks.set(agent, { team, colour: data.slice() });
      },
      leave: (agent) => looks.delete(agent),
      reset(agent, { team }) {
        const look = looks.get(agent);
        if (look !== undefined && team !== undefined) {
          look.team = team;
        }
      },
      step() {},
      observe: {
        place: () => new Int32Array(settings.size),
        map: { name: () => settings["map.name"], rows: () => settings["map.rows"] },
        look: {
          team: (agent: AgentId) => looks.get(agent)?.team ?? "",
          colour: (agent: AgentId) => looks.get(agent)?.colour ?? new Uint8Array(3),
        },
        reward: () => 0,
      },
    };
  },
});

function zero() {
  return { dtype: "uint8", shape: [3], data: new Uint8Array(3) } as const;
}
