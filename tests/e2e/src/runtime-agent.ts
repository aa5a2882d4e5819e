// SPDX-License-Identifier: Apache-2.0
// Plays a sequence, in Node, Bun or Deno: runtime-agent.ts ADDRESS
import process from "node:process";
import { connect } from "@dm-env-rpc/client";

const [address = ""] = process.argv.slice(2);
const connection = await connect(address);
const world = await connection.createWorld({ settings: { max_steps: 20, seed: 7n } });
const environment = await connection.join(world);
let step = await environment.reset();
let steps = 0;
while (!step.last()) {
  step = await environment.step({ move: 1 });
  steps += 1;
}
await environment.close();
await connection.close();
process.stdout.write(`${steps} steps\n`);
