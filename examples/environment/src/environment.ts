// Wraps a simulation as an environment with dm_env's reset and step. For agents that join many environments at once, it
// also wraps a simulation of many poles in arrays.
import { defineEnvironment, withDefault } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { CartPole } from "./cart-pole.ts";
import { CartPoles } from "./cart-poles.ts";

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
  // Optional: without `createBatch`, a batch has an environment of `create` in each slot.
  createBatch({ size, settings, random, observation, reward, terminated, interrupted }) {
    const simulation = new CartPoles(size);
    const steps = new Int32Array(size);
    const observe = (slot: number) => {
      observation.cart.position[slot] = simulation.position[slot] ?? 0;
      observation.cart.velocity[slot] = simulation.velocity[slot] ?? 0;
      observation.pole.angle[slot] = simulation.angle[slot] ?? 0;
      observation.pole.velocity[slot] = simulation.angularVelocity[slot] ?? 0;
    };
    return {
      reset(slots) {
        for (const slot of slots) {
          simulation.restart(slot, random[slot]?.next ?? Math.random);
          steps[slot] = 0;
          observe(slot);
        }
      },
      step({ push }, slots) {
        for (const slot of slots) {
          simulation.push(slot, push?.[slot] === 1);
          steps[slot] = (steps[slot] ?? 0) + 1;
          reward[slot] = 1;
          if (simulation.hasFallen(slot)) {
            terminated[slot] = 1;
          } else if (steps[slot] === settings.max_steps) {
            interrupted[slot] = 1;
          }
          observe(slot);
        }
      },
    };
  },
});
