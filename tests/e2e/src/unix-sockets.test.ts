// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "@dm-env-rpc/client";
import { defineEnvironment, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import { expect, onTestFinished, test } from "vitest";

const counter = defineEnvironment({
  name: "counter",
  actions: { add: t.int8() },
  observations: { total: t.int32() },
  create() {
    let total = 0;
    return {
      reset() {
        total = 0;
        return { total };
      },
      step({ add = 0 }) {
        total += add;
        return { observation: { total }, state: "running" };
      },
    };
  },
});

test("an agent plays over a Unix domain socket, at the server's url", async () => {
  const folder = mkdtempSync(join(tmpdir(), "unix-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  await using server = await serve({ worlds: [counter], host: `unix:${folder}/env.sock` });
  expect(server.url).toBe(`unix:${folder}/env.sock`);
  await using connection = await connect(server.url);
  const world = await connection.createWorld();
  await using environment = await connection.join(world, { as: counter });
  await environment.reset();
  const step = await environment.step({ add: 3 });
  expect(step.observation.total).toBe(3);
});
