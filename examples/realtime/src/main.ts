// The agent loop of OpenAI Universe: worlds that advance in real time, even if the agent does not step.
import { connect } from "@dm-env-rpc/client";
import { blockingReset, realtime, recordStatistics, throttle } from "@dm-env-rpc/client/realtime";
import { serve } from "@dm-env-rpc/server";
import { stone } from "./stone.ts";

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
