// Two agents play in turns. One of them tries an occupied field: the move is refused, and it moves again.
import { connect } from "@dm-env-rpc/client";
import { serve } from "@dm-env-rpc/server";
import { ticTacToe } from "./world.ts";

await using server = await serve({ worlds: [ticTacToe] });
await using host = await connect(server.url);
const world = await host.createWorld();

/** Plays the given fields in order, even if some moves are refused. */
async function play(name: string, fields: readonly number[]) {
  await using connection = await connect(server.url);
  await using environment = await connection.join(world, { as: ticTacToe });
  let step = await environment.reset();
  for (const field of fields) {
    try {
      step = await environment.step({ field });
      if (step.last()) {
        break;
      }
    } catch (error) {
      console.log(`${name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  console.log(`${name}: ${step.state}, reward ${step.reward}`);
}

await Promise.all([play("one", [4, 0, 8]), play("two", [4, 1, 2])]);
