// SPDX-License-Identifier: Apache-2.0
import { defineWorld } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

const actions = {
  scalar: {
    float32: t.float32({ min: -1, max: 1 }),
    float64: t.float64({ min: -1, max: 1 }),
    int8: t.int8({ min: -3, max: 3 }),
    int32: t.int32({ min: -3, max: 3 }),
    int64: t.int64({ min: -3n, max: 3n }),
    uint8: t.uint8({ min: 1, max: 3 }),
    uint32: t.uint32({ min: 1, max: 3 }),
    uint64: t.uint64({ min: 1n, max: 2n ** 63n }),
    bool: t.bool(),
    string: t.string(),
  },
  matrix: {
    float32: t.float32([2, 3], { min: -1, max: 1 }),
    int32: t.int32([2, 3], {
      min: [
        [0, 1, 2],
        [3, 4, 5],
      ],
      max: [
        [10, 11, 12],
        [13, 14, 15],
      ],
    }),
    uint8: t.uint8([2, 2]),
    bool: t.bool([2, 2]),
    string: t.string([2, 2]),
  },
  perElement: {
    float64: t.float64([3], { min: [-1, -2, -3], max: [1, 2, 3] }),
    int64: t.int64([2], { min: [-(2n ** 60n), 1n], max: [0n, 2n ** 60n] }),
    apart: t.int8([2], { min: [0, 10], max: [5, 20] }),
  },
  variable: {
    float32: t.float32([-1]),
    int32: t.int32([-1, 2]),
    string: t.string([-1]),
  },
};

/** A world with actions of every dtype that NumPy has: scalars, matrices, variable lengths, bounds by element. */
export const everyAction = defineWorld({
  name: "every-action",
  actions,
  observations: {
    ticks: t.int64({ min: 0n, max: 2n ** 62n }),
    row: t.float32([4], { min: [0, -1, -2, -3], max: [0, 1, 2, 3] }),
    text: t.string([2]),
    flags: t.bool([2, 2]),
    open: t.int32([-1]),
    reward: t.float64(),
  },
  create() {
    let ticks = 0n;
    return {
      start() {
        ticks = 0n;
      },
      step() {
        ticks += 1n;
      },
      observe: {
        ticks: () => ticks,
        row: () => [0, 0.5, -2, 3],
        text: () => ["a", "ß"],
        flags: () => false,
        open: () => new Int32Array(Number(ticks)),
        reward: () => 0.25,
      },
    };
  },
});
