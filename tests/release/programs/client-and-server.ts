// SPDX-License-Identifier: Apache-2.0
import { deepEqual } from "node:assert/strict";
import { connect } from "@dm-env-rpc/client";
import { serve } from "@dm-env-rpc/server";
import { adder } from "./world.ts";

await using server = await serve({ worlds: [adder] });
await using connection = await connect(server.url);
const world = await connection.createWorld({ settings: { start: 10 } });
await using environment = await connection.join(world, { as: adder });
const totals: number[] = [];
for (let step = await environment.reset(); ; step = await environment.step({ add: 2 })) {
  totals.push(step.observation.total);
  if (step.last()) {
    break;
  }
}
deepEqual(totals, [10, 12, 14, 16]);
