// SPDX-License-Identifier: Apache-2.0
import { defineEnvironment } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

const specs = {
  scalar: {
    float64: t.float64({ min: -1, max: 1 }),
    int8: t.int8({ min: -3, max: 3 }),
    uint8: t.uint8({ min: 1, max: 3 }),
    uint64: t.uint64({ min: 1n, max: 2n ** 63n }),
    count: t.int32({ min: 0, max: 300 }),
    bool: t.bool(),
    string: t.string(),
  },
  matrix: {
    float32: t.float32([2, 3], { min: -1, max: 1 }),
    bool: t.bool([2, 2]),
    string: t.string([2, 2]),
  },
  perElement: {
    int64: t.int64([2], { min: [-(2n ** 60n), 1n], max: [0n, 2n ** 60n] }),
    apart: t.int8([2], { min: [0, 10], max: [5, 20] }),
  },
};

/** Observes the actions that it got: every dtype of a fixed shape, there and back. It ends after three steps. */
export const mirror = defineEnvironment({
  name: "mirror",
  actions: specs,
  observations: specs,
  create() {
    let steps = 0;
    return {
      reset() {
        steps = 0;
        return {
          scalar: { float64: 0, int8: 0, uint8: 1, uint64: 1n, count: 0, bool: false, string: "" },
          matrix: { float32: 0, bool: false, string: "" },
          perElement: { int64: [0n, 1n], apart: [0, 10] },
        };
      },
      step(action) {
        steps += 1;
        return {
          observation: structuredClone(action) as never,
          state: steps === 3 ? "interrupted" : "running",
        };
      },
    };
  },
});
