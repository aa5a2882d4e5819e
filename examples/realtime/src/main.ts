// Universe's loop: worlds that advance in real time, even if the agent does not step.
import { connect } from "@dm-env-rpc/client";
import { blockingReset, realtime, recordStatistics, throttle } from "@dm-env-rpc/client/realtime";
import { defineWorld, realtime as realtimeClock, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/**
 * A stone falls; holding the key lifts it. A sequence ends when the stone reaches the ground, or after 60 ticks. Its
 * reward, given at the end, is its duration in seconds.
 */
const stone = defineWorld({
  name: "stone",
  actions: { key: t.bool() },
  observations: { height: t.float32(), tick: t.int32(), reward: t.float32() },
  clock: realtimeClock({ ticksPerSecond: 60 }),
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

await using server = await serve({ worlds: [stone] });
const remotes = await Promise.all(
  ["first", "second"].map(async () => {
    const connection = await connect(server.url);
    return await connection.join(await connection.createWorld(), { as: stone });
  }),
);
await using environment = recordStatistics(throttle(blockingReset(realtime(remotes)), 30));

let observationN = await environment.reset();
let done = 0;
while (done < 4) {
  // The first agent holds the key while its stone is low; the second never does.
  const actionN = observationN.map((observation, index) => ({
    key: index === 0 && (observation?.height ?? 10) < 8,
  }));
  const step = await environment.step(actionN);
  observationN = step.observationN;
  for (const [index, { sequence }] of step.info.n.entries()) {
    if (!step.doneN[index] || sequence === null) {
      continue;
    }
    done += 1;
    console.log(`stone ${index} lasted ${sequence.return.toFixed(1)} s`);
  }
}
