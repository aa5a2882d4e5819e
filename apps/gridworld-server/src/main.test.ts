// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import { connect } from "@dm-env-rpc/client";
import { Program } from "@dm-env-rpc/tests-processes";
import { expect, it } from "vitest";

const main = fileURLToPath(new URL("../dist/main.js", import.meta.url));

it("serves metrics until it is closed, and exits cleanly on SIGTERM", async () => {
  await using app = new Program(process.execPath, [main, "--port=0", "--metrics-port=0"]);
  const url = await app.says(/^listening on (\S+)$/m);
  const metricsUrl = await app.says(/^metrics at (\S+)$/m);
  const connection = await connect(url);
  const environment = await connection.join(await connection.createWorld());
  await environment.reset();
  await environment.step({ move: 1 });
  const metrics = await (await fetch(metricsUrl)).text();
  for (const sample of [
    'worlds{type="gridworld"} 1',
    'agents{type="gridworld"} 1',
    'sequences_total{type="gridworld"} 1',
    'steps_total{type="gridworld"} 2',
    "streams 1",
  ]) {
    expect(metrics).toContain(`\ndm_env_rpc_server_${sample}\n`);
  }
  expect(metrics).toContain("\nnodejs_eventloop_lag_seconds ");
  await connection.close();
  expect(await app.stop()).toBe(0);
  expect(app.stderr).toBe("");
});
