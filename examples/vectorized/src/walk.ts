import { defineEnvironment } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** A walk on a line; the goal is on the right. */
export const walk = defineEnvironment({
  name: "walk",
  actions: { dx: t.int8({ min: -1, max: 1 }) },
  observations: { x: t.int32() },
  create({ random }) {
    let x = 0;
    return {
      reset() {
        x = random.integer(0, 3);
        return { x };
      },
      step({ dx = 0 }) {
        x += dx;
        return x < 8
          ? { observation: { x }, reward: -0.1 }
          : { observation: { x }, reward: 1, state: "terminated" };
      },
    };
  },
});
