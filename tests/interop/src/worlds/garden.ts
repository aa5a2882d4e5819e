// SPDX-License-Identifier: Apache-2.0
import { defineWorld, type PropertyTree, property } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** Additional properties of the server: a tree with leaves of every kind. */
export function toolShed(): PropertyTree {
  let label = "spade";
  let secret = 0;
  return {
    shed: {
      label: property(t.string(), {
        description: "What is on the door",
        read: () => label,
        write: (value) => {
          label = value;
        },
      }),
      shelf: {
        count: property(t.int32({ min: 1, max: 9 }), { read: () => 4 }),
        weights: property(t.float64([2, 2]), {
          read: () => [
            [0.5, 1],
            [1.5, 2],
          ],
        }),
      },
      secret: property(t.uint64(), {
        write: () => {
          secret += 1;
        },
      }),
      secrets: property(t.int32(), { read: () => secret }),
    },
  };
}

/** A world with its own properties. */
export const garden = defineWorld({
  name: "garden",
  actions: { water: t.float32({ min: 0, max: 1 }) },
  observations: { height: t.float32() },
  create() {
    let height = 0;
    return {
      step(actions) {
        for (const { water = 0 } of actions.values()) {
          height += water;
        }
      },
      observe: { height: () => height },
      properties: {
        bed: {
          height: property(t.float32(), {
            read: () => height,
            write: (value) => {
              height = value;
            },
          }),
        },
      },
    };
  },
});
