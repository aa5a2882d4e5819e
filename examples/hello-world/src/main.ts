import { connect } from "@dm-env-rpc/client";
import { type AgentId, defineWorld, lockstep, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

const race = defineWorld({
  name: "race",
  settings: { length: t.int32({ min: 1, max: 100 }) },
  actions: { stride: t.int8({ min: 0, max: 3 }) },
  observations: { position: t.int32(), leader: t.int32(), reward: t.float32() },
  clock: lockstep({ deadlineMs: 1_000, onMissedDeadline: "default-action" }),

  create({ settings, random }) {
    const positions = new Map<AgentId, number>();
    const position = (agent: AgentId) => positions.get(agent) ?? 0;
    const leader = () => Math.max(0, ...positions.values());
    return {
      start: () => positions.clear(),
      leave: (agent) => positions.delete(agent),
      step(actions) {
        for (const [agent, { stride = 0 }] of actions) {
          positions.set(agent, position(agent) + random.integer(0, stride));
        }
      },
      status: () => (leader() >= settings.length ? "terminated" : "running"),
      observe: {
        position,
        leader,
        reward: (agent) => (position(agent) >= settings.length ? 1 : 0),
      },
    };
  },
});

const server = await serve({ worlds: [race] });
const connection = await connect(server.url);
const world = await connection.createWorld({ settings: { length: 12, seed: 7n } });
const environment = await connection.join(world, { as: race });

let step = await environment.reset();
while (!step.last()) {
  step = await environment.step({ stride: 3 });
  console.log(`at ${step.observation.position}, reward ${step.reward}`);
}
await connection.close();
await server.close();
