import { defineWorld, realtime } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/**
 * A stone falls; holding the key lifts it. A sequence ends when the stone reaches the ground, or after 60 ticks. Its
 * reward, given at the end, is its duration in seconds.
 */
export const stone = defineWorld({
  name: "stone",
  actions: { key: t.bool() },
  observations: { height: t.float32(), tick: t.int32(), reward: t.float32() },
  clock: realtime({ ticksPerSecond: 60 }),
  create() {
    let height = 0;
    let tick = 0;
    const status = () => (height <= 0 ? "terminated" : tick >= 60 ? "interrupted" : "running");
    return {
      start() {
        height = 10;
        tick = 0;
      },
      step(actions) {
        tick += 1;
        const [{ key = false } = {}] = actions.values();
        height += key ? 0.1 : -0.3;
      },
      status,
      observe: {
        height: () => height,
        tick: () => tick,
        reward: () => (status() === "running" ? 0 : tick / 60),
      },
    };
  },
});
