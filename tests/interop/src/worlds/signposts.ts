// SPDX-License-Identifier: Apache-2.0
import { defineEnvironment } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/**
 * An environment with a mask of legal actions. Action 0 continues, 1 ends the sequence TERMINATED, 2
 * INTERRUPTED, and 3 throws. Its discount does not distinguish the ends.
 */
export const signposts = defineEnvironment({
  name: "signposts",
  actions: { way: t.discrete(4) },
  observations: {
    steps: t.int32(),
    legal_actions: t.bool([4]),
    discount: t.float32(),
  },
  create() {
    let steps = 0;
    const observe = () => ({
      steps,
      legal_actions: [true, steps % 2 === 0, true, false],
      discount: 0.5,
    });
    return {
      reset() {
        steps = 0;
        return observe();
      },
      step({ way = 0 }) {
        if (way === 3) {
          throw new Error("there is a cliff");
        }
        steps += 1;
        const state = way === 1 ? "terminated" : way === 2 ? "interrupted" : "running";
        return { observation: observe(), reward: way, state };
      },
    };
  },
});
