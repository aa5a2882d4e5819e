// SPDX-License-Identifier: Apache-2.0
import { defineWorld, lockstep } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/**
 * Adds up its agents' numbers; a sequence has three ticks. Defined here because these programs
 * run in an empty folder with only the packed packages.
 */
export const adder = defineWorld({
  name: "adder",
  settings: { start: t.int32() },
  actions: { add: t.int32() },
  observations: { total: t.int32() },
  clock: lockstep(),
  create({ settings }) {
    let total = 0;
    let ticks = 0;
    return {
      start() {
        total = settings.start;
        ticks = 0;
      },
      step(actions) {
        ticks += 1;
        for (const { add = 0 } of actions.values()) {
          total += add;
        }
      },
      observe: { total: () => total },
      status: () => (ticks >= 3 ? "terminated" : "running"),
    };
  },
});
