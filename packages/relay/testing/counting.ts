// SPDX-License-Identifier: Apache-2.0
import { defineEnvironment, withDefault } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** Sums the numbers that its agent adds, and observes a frame of as many bytes as the join requests. */
export const counting = defineEnvironment({
  name: "counting",
  joinSettings: { frame_bytes: withDefault(t.int32({ min: 0 }), 0) },
  actions: { add: t.int32() },
  observations: { total: t.int32(), frame: t.uint8([-1]) },
  create({ joinSettings }) {
    const frame = new Uint8Array(joinSettings.frame_bytes);
    let total = 0;
    return {
      reset() {
        total = 0;
        return { total, frame };
      },
      step({ add = 0 }) {
        total += add;
        return { observation: { total, frame } };
      },
    };
  },
});
