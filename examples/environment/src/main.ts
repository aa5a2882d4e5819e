// Two policies play the environment of environment.ts.
import { connect, run } from "@dm-env-rpc/client";
import { serve } from "@dm-env-rpc/server";
import { cartPole } from "./environment.ts";

await using server = await serve({ worlds: [cartPole] });
await using connection = await connect(server.url);
const world = await connection.createWorld({ settings: { seed: 1n } });
await using environment = await connection.join(world, { as: cartPole });

/** Plays three sequences; `choose` returns the push for the pole's angle and velocity. */
async function play(name: string, choose: (angle: number, velocity: number) => number) {
  let total = 0;
  const steps = run(
    environment,
    ({ observation: { pole } }) => ({ push: choose(pole.angle, pole.velocity) }),
    { sequences: 3 },
  );
  for await (const step of steps) {
    total += step.reward ?? 0;
    if (!step.last()) {
      continue;
    }
    console.log(`${name}: ${step.state} after ${total} steps`);
    total = 0;
  }
}

await play("always right", () => 1);
await play("towards the fall", (angle, velocity) => (angle + 0.3 * velocity > 0 ? 1 : 0));
