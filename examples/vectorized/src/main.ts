// Sixteen environments as one: observations are stacked, and sequences restart automatically.
import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
import { serve } from "@dm-env-rpc/server";
import { walk } from "./walk.ts";

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
