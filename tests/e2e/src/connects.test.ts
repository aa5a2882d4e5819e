// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync } from "node:fs";
import { connect as connectTcp } from "node:net";
import { connect } from "@dm-env-rpc/client";
import { expect, test } from "vitest";
import { gridworldServer } from "./programs.ts";

const connects = 2_000;

/** The kernel's limit of `listenBacklog`. */
const somaxconn = "/proc/sys/net/core/somaxconn";
const mayQueue = existsSync(somaxconn) && Number(readFileSync(somaxconn, "utf8")) > connects;

test.skipIf(!mayQueue)("2,000 clients connect at once while a server stands still", async () => {
  await using server = await gridworldServer();
  const [host = "", port] = server.address.split(":");
  server.process.kill("SIGSTOP");
  const sockets = await Promise.all(
    Array.from(
      { length: connects },
      () =>
        new Promise<ReturnType<typeof connectTcp>>((resolve, reject) => {
          const socket = connectTcp(Number(port), host, () => resolve(socket));
          socket.on("error", reject);
        }),
    ),
  );
  server.process.kill("SIGCONT");
  await using connection = await connect(server.address, { connectTimeoutMs: 120_000 });
  expect(await connection.createWorld()).toBe("gridworld-1");
  for (const socket of sockets) {
    socket.destroy();
  }
});
