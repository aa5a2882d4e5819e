// Sixteen environments as one: observations are stacked, and sequences restart automatically.
import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
import { defineEnvironment, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";

/** A walk on a line; the goal is on the right. */
const walk = defineEnvironment({
  name: "walk",
  actions: { dx: t.int8({ min: -1, max: 1 }) },
  observations: { x: t.int32() },
  create({ random }) {
    let x = 0;
    return {
      reset() {
        x = random.integer(0, 3);
        return { x };
      },
      step({ dx = 0 }) {
        x += dx;
        return x < 8
          ? { observation: { x }, reward: -0.1 }
          : { observation: { x }, reward: 1, state: "terminated" };
      },
    };
  },
});

await using server = await serve({ worlds: [walk] });
await using environments = await vectorize(
  16,
  remoteSlots(server.url, { as: walk, joinSettings: ({ seed }) => ({ seed: seed ?? 0n }) }),
  { seed: 1n },
);

let batch = await environments.reset();
let returns = 0;
let sequences = 0;
for (let i = 0; i < 50; i++) {
  batch = await environments.step(batch.ids.map(() => ({ dx: 1 })));
  for (const info of batch.finalInfo) {
    if (info === null) {
      continue;
    }
    sequences += 1;
    returns += info.return;
  }
}
console.log(
  `${environments.size} environments, observations of shape [${batch.observation.x.shape}]`,
);
console.log(`${sequences} sequences, mean return ${(returns / sequences).toFixed(2)}`);
