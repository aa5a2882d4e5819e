// SPDX-License-Identifier: Apache-2.0
import { defineWorld, property } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** A world with bounds that `dm_env` cannot express, and some that it can. */
export const bounds = defineWorld({
  name: "bounds",
  actions: {
    int8: t.int8({ min: 0, max: 127 }),
    int32: t.int32({ min: 0 }),
    int64: t.int64({ min: 0n, max: 2n ** 63n - 1n }),
    uint8: t.uint8({ min: 0, max: 255 }),
    uint32: t.discrete(2 ** 32, "uint32"),
    uint64: t.uint64({ max: 2n ** 64n - 1n }),
    all: t.int8({ min: -128, max: 127 }),
    list: t.int32([-1], { min: 0, max: 5 }),
    each: t.float32([3], { min: 0, max: [9, 9, 4] }),
    few: t.discrete(3),
  },
  observations: {
    ticks: t.int32({ min: 0 }),
    list: t.float64([-1, 2], { min: 0, max: 1 }),
    row: t.uint8([2], { min: 0, max: 255 }),
  },
  create() {
    let ticks = 0;
    return {
      properties: { byte: property(t.uint8({ min: 0, max: 255 }), { read: () => 255 }) },
      step() {
        ticks += 1;
      },
      observe: {
        ticks: () => ticks,
        list: () => [[0, 1]],
        row: () => [0, 255],
      },
    };
  },
});
