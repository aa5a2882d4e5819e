// SPDX-License-Identifier: Apache-2.0

import { once } from "node:events";
import { cp, mkdtemp, rm, symlink } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort, Program, run } from "@dm-env-rpc/tests-processes";
import { expect, it, onTestFinished } from "vitest";
import { deploy, root } from "./paths.ts";

const apps = join(root, "apps");

/**
 * Agones' SDK server runs as a container of a cluster. This stand-in answers as its REST reference specifies and
 * records the calls. It accepts the server at the third attempt.
 */
async function sdkServer(port: number) {
  const calls: string[] = [];
  let told = (): void => {};
  const server = createServer((request, response) => {
    calls.push(`${request.method} ${request.url}`);
    response.setHeader("content-type", "application/json");
    const status =
      calls.length > 2
        ? { state: "Scheduled", address: "127.0.0.1", ports: [{ name: "grpc", port }] }
        : { state: "PortAllocation", address: "", ports: [] };
    response.end(request.method === "GET" ? JSON.stringify({ status }) : "{}");
    told();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const address = server.address();
  if (address === null || typeof address === "string") {
    throw new Error("expected a TCP address");
  }
  return {
    port: String(address.port),
    calls,
    /** Waits for a call after the first `since` calls, and returns the number of calls up to it. */
    async called(path: string, since = 0): Promise<number> {
      for (;;) {
        const found = calls.indexOf(`POST ${path}`, since);
        if (found !== -1) {
          return found + 1;
        }
        await new Promise<void>((resolve) => {
          told = resolve;
        });
      }
    },
  };
}

/** Prepares the files of the image's WORKDIR, and the mounted files. */
async function container(): Promise<{ readonly workdir: string; readonly launch: string }> {
  const folder = await mkdtemp(join(tmpdir(), "agones-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  for (const entry of ["dist", "node_modules", "package.json"]) {
    await symlink(join(apps, "gridworld-server", entry), join(folder, entry));
  }
  await cp(join(deploy, "docker/health.ts"), join(folder, "health.ts"));
  await cp(join(deploy, "agones/launch.mts"), join(folder, "agones/launch.mts"));
  return { workdir: folder, launch: join(folder, "agones/launch.mts") };
}

it("launches a server and reports it to Agones as Ready, Allocated while it has agents, and healthy", {
  timeout: 300_000,
}, async () => {
  const profiles = join(deploy, "kubernetes/base/profiles.json");
  await using matchmaker = new Program(process.execPath, [
    join(apps, "matchmaker-server/dist/main.js"),
    ...["--port", "0", "--profiles", profiles],
  ]);
  const matchmakerAddress = await matchmaker.says(/^listening on http:\/\/(\S+)$/m);

  const port = await freePort();
  const sdk = await sdkServer(port);
  const { workdir, launch } = await container();
  const options = [`--port=${port}`, `--matchmaker=${matchmakerAddress}`];
  await using server = new Program(process.execPath, [launch, ...options], {
    cwd: workdir,
    env: { ...process.env, AGONES_SDK_HTTP_PORT: sdk.port },
  });
  await server.says(/^listening on (\S+)$/m);
  const ready = await sdk.called("/ready");
  const alive = await sdk.called("/health", ready);

  await run(process.execPath, [
    join(apps, "random-agent/dist/main.js"),
    ...["--matchmaker", matchmakerAddress, "--agents", "2", "--steps", "50"],
  ]);
  const allocated = await sdk.called("/allocate", alive);
  await sdk.called("/ready", allocated);
  expect(await server.stop()).toBe(0);
  expect(server.stderr).toBe("");
  expect(sdk.calls.slice(0, 3)).toEqual(Array(3).fill("GET /gameserver"));
});
