// SPDX-License-Identifier: Apache-2.0
import { CartPole, CartPoles } from "@dm-env-rpc/example-environment";
import { defineEnvironment } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** CartPole as in Gymnasium: four floats, 500 steps at most. */
const specs = {
  actions: { push: t.discrete(2) },
  observations: { state: t.float32([4]) },
} as const;

const maxSteps = 500;

function create({ random }: { readonly random: { next(): number } }) {
  const pole = new CartPole();
  let steps = 0;
  const observe = () => ({
    state: [pole.position, pole.velocity, pole.angle, pole.angularVelocity],
  });
  return {
    reset() {
      pole.restart(random.next);
      steps = 0;
      return observe();
    },
    step({ push = 0 }: { readonly push?: number }) {
      pole.push(push === 1);
      steps += 1;
      const state = pole.hasFallen()
        ? ("terminated" as const)
        : steps === maxSteps
          ? ("interrupted" as const)
          : ("running" as const);
      return { observation: observe(), reward: 1, state };
    },
  };
}

/** CartPole as one environment, of which a batch has many. */
export const cartPole = defineEnvironment({ name: "cart-pole", ...specs, create });

/** CartPole with `createBatch`. */
export const cartPoles = defineEnvironment({
  name: "cart-poles",
  ...specs,
  create,
  createBatch({ size, random, observation, reward, terminated, interrupted }) {
    const poles = new CartPoles(size);
    const steps = new Int32Array(size);
    const { state } = observation;
    const observe = (slot: number): void => {
      state[4 * slot] = poles.position[slot] as number;
      state[4 * slot + 1] = poles.velocity[slot] as number;
      state[4 * slot + 2] = poles.angle[slot] as number;
      state[4 * slot + 3] = poles.angularVelocity[slot] as number;
    };
    return {
      reset(slots) {
        for (const slot of slots) {
          poles.restart(slot, (random[slot] as { next(): number }).next);
          steps[slot] = 0;
          observe(slot);
        }
      },
      step({ push }, slots) {
        for (const slot of slots) {
          poles.push(slot, push?.[slot] === 1);
          (steps[slot] as number) += 1;
          reward[slot] = 1;
          if (poles.hasFallen(slot)) {
            terminated[slot] = 1;
          } else if (steps[slot] === maxSteps) {
            interrupted[slot] = 1;
          }
          observe(slot);
        }
      },
    };
  },
});

/** Frames as Atari's agents see them, of which each step changes a pixel. */
export const frames = images([84, 84, 4]);

/** The same, of 1 kB. */
export const pixels = images([16, 16, 4]);

function images(shape: readonly [number, number, number]) {
  return defineEnvironment({
    name: "images",
    actions: specs.actions,
    observations: { state: t.uint8(shape) },
    create() {
      const state = new Uint8Array(shape[0] * shape[1] * shape[2]);
      let tick = 0;
      return {
        reset: () => ({ state }),
        step() {
          tick += 1;
          state[(tick * 13) % state.length] = tick & 255;
          return { observation: { state } };
        },
      };
    },
  });
}

/** Number of random numbers to draw, about 1 ms of CPU. It is a constant, so the time depends on the machine. */
const busyRounds = 600_000;

/** An environment that computes. */
export const busy = defineEnvironment({
  name: "busy",
  ...specs,
  create() {
    let seed = 1;
    const observe = () => ({ state: [seed, 0, 0, 0] });
    return {
      reset: observe,
      step() {
        for (let round = 0; round < busyRounds; round++) {
          seed ^= seed << 13;
          seed ^= seed >>> 17;
          seed ^= seed << 5;
        }
        return { observation: observe() };
      },
    };
  },
});
