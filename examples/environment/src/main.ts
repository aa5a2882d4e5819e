// A simulation of one's own, wrapped as an environment with dm_env's reset and step.
import { connect, run } from "@dm-env-rpc/client";
import { defineEnvironment, serve, withDefault } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { CartPole } from "./cart-pole.ts";

const cartPole = defineEnvironment({
  name: "cart-pole",
  settings: { max_steps: withDefault(t.int32({ min: 1 }), 500) },
  actions: { push: t.discrete(2) },
  observations: {
    cart: { position: t.float32(), velocity: t.float32() },
    pole: { angle: t.float32(), velocity: t.float32() },
  },
  create({ settings, random }) {
    const simulation = new CartPole();
    let steps = 0;
    const observe = () => ({
      cart: { position: simulation.position, velocity: simulation.velocity },
      pole: { angle: simulation.angle, velocity: simulation.angularVelocity },
    });
    return {
      reset() {
        simulation.restart(random.next);
        steps = 0;
        return observe();
      },
      step({ push = 0 }) {
        simulation.push(push === 1);
        steps += 1;
        const state = simulation.hasFallen()
          ? "terminated"
          : steps === settings.max_steps
            ? "interrupted"
            : "running";
        return { observation: observe(), reward: 1, state };
      },
    };
  },
});

await using server = await serve({ worlds: [cartPole] });
await using connection = await connect(server.url);
const world = await connection.createWorld({ settings: { seed: 1n } });
await using environment = await connection.join(world, { as: cartPole });

/** Plays three sequences; pushes as `choose` says from the pole's angle and velocity. */
async function play(name: string, choose: (angle: number, velocity: number) => number) {
  let total = 0;
  const steps = run(
    environment,
    ({ observation: { pole } }) => ({ push: choose(pole.angle, pole.velocity) }),
    { sequences: 3 },
  );
  for await (const step of steps) {
    total += step.reward ?? 0;
    if (!step.last()) continue;
    console.log(`${name}: ${step.state} after ${total} steps`);
    total = 0;
  }
}

await play("always right", () => 1);
await play("towards the fall", (angle, velocity) => (angle + 0.3 * velocity > 0 ? 1 : 0));
