// SPDX-License-Identifier: Apache-2.0
import { defineWorld, lockstep } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/**
 * Adds up what its agents add, three ticks to a sequence. Written out here, for these programs
 * run in an empty folder where nothing but packed packages is installed.
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
