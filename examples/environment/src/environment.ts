// A simulation of one's own, wrapped as an environment with dm_env's reset and step.
import { defineEnvironment, withDefault } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { CartPole } from "./cart-pole.ts";

export const cartPole = defineEnvironment({
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
