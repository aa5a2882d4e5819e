// SPDX-License-Identifier: Apache-2.0

import { once } from "node:events";
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { freePort, Program, run } from "@dm-env-rpc/tests-processes";
import { describe, expect, it, onTestFinished } from "vitest";
import { AgonesApi, type GameServer } from "../../../packages/matchmaker/testing/agones-api.ts";
import { deploy, root } from "./paths.ts";

const apps = join(root, "apps");

/** A GameServer as the stand-ins of Agones know it, with what has happened to it. */
interface TestGameServer extends GameServer {
  readonly history: string[];
}

/**
 * A stand-in for Agones' SDK server, which runs as a container of a cluster. It answers as its REST reference
 * specifies, and changes the GameServer. At first the GameServer has no address yet.
 */
async function sdkServer(name: string, gameServer: TestGameServer, port: number) {
  let asked = 0;
  const states = { "/ready": "Ready", "/allocate": "Allocated", "/shutdown": "Shutdown" } as const;
  const server = createServer((request, response) => {
    void text(request).then((body) => {
      const path = request.url ?? "";
      const call = `${request.method} ${path}`;
      response.setHeader("content-type", "application/json");
      if (call === "GET /gameserver") {
        asked += 1;
        const { state, labels } = gameServer;
        const status =
          asked > 2
            ? { state, address: "127.0.0.1", ports: [{ name: "grpc", port }] }
            : { state: "PortAllocation", address: "", ports: [] };
        response.end(JSON.stringify({ object_meta: { name, labels }, status }));
        return;
      }
      if (call === "PUT /metadata/label") {
        const { key, value } = JSON.parse(body);
        gameServer.labels[`agones.dev/sdk-${key}`] = value;
      } else if (path === "/ready" || path === "/allocate" || path === "/shutdown") {
        gameServer.state = states[path];
      }
      if (gameServer.history.at(-1) !== call) {
        gameServer.history.push(call);
      }
      response.end("{}");
    });
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const address = server.address();
  if (address === null || typeof address === "string") {
    throw new Error("expected a TCP address");
  }
  return String(address.port);
}

/** Prepares the files of the image's WORKDIR, and the mounted files. */
async function container(): Promise<{ readonly workdir: string; readonly launch: string }> {
  const workdir = await folder();
  for (const entry of ["dist", "node_modules", "package.json"]) {
    await symlink(join(apps, "gridworld-server", entry), join(workdir, entry));
  }
  await cp(join(deploy, "docker/health.ts"), join(workdir, "health.ts"));
  await cp(join(deploy, "agones/launch.mts"), join(workdir, "agones/launch.mts"));
  return { workdir, launch: join(workdir, "agones/launch.mts") };
}

/** Creates a folder for the time of a test. */
async function folder(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), "agones-"));
  onTestFinished(() => rm(path, { recursive: true }));
  return path;
}

const fleet = "gridworld-server";

/** Starts a matchmaker whose profile selects servers of the fleet. */
async function matchmakerOf(...options: string[]): Promise<Program & { readonly address: string }> {
  const [profile] = JSON.parse(
    await readFile(join(deploy, "kubernetes/base/profiles.json"), "utf8"),
  );
  const file = join(await folder(), "profiles.json");
  const selecting = { ...profile, server_labels: { "agones.dev/fleet": fleet } };
  await writeFile(file, JSON.stringify([selecting]));
  const program = new Program(process.execPath, [
    join(apps, "matchmaker-server/dist/main.js"),
    ...["--port", "0", "--profiles", file, ...options],
  ]);
  return Object.assign(program, { address: await program.says(/^listening on http:\/\/(\S+)$/m) });
}

/** Starts a server of the fleet with the launcher. */
async function launched(gameServer: TestGameServer, matchmaker: string, releaseAfterMs: number) {
  const port = await freePort();
  const sdkPort = await sdkServer("gridworld-server-x7k2p-9qwzr", gameServer, port);
  const { workdir, launch } = await container();
  const options = [`--port=${port}`, `--matchmaker=${matchmaker}`];
  const server = new Program(process.execPath, [launch, ...options], {
    cwd: workdir,
    env: {
      ...process.env,
      AGONES_SDK_HTTP_PORT: sdkPort,
      RELEASE_AFTER_MS: String(releaseAfterMs),
    },
  });
  await server.says(/^registered with /m);
  await expect.poll(() => gameServer.history, { timeout: 60_000 }).toContain("POST /health");
  return server;
}

async function play(matchmaker: string): Promise<void> {
  await run(process.execPath, [
    join(apps, "random-agent/dist/main.js"),
    ...["--matchmaker", matchmaker, "--agents", "2", "--steps", "50"],
  ]);
}

const scheduled = (): TestGameServer => ({
  labels: { "agones.dev/fleet": fleet },
  state: "Scheduled",
  history: [],
});

describe("a gridworld server under Agones, with stand-ins for its APIs", () => {
  it("is allocated by the matchmaker before it gets a world, and shuts down after its last one", {
    timeout: 300_000,
  }, async () => {
    const account = await folder();
    await writeFile(join(account, "token"), "the token of the account\n");
    await using api = await AgonesApi.start({
      namespace: "games",
      token: "the token of the account",
    });
    await using matchmaker = await matchmakerOf(
      ...["--agones-namespace", "games", "--kubernetes-url", api.url],
      ...["--kubernetes-account", account],
    );
    const gameServer = scheduled();
    api.gameServers.set("gridworld-server-x7k2p-9qwzr", gameServer);
    api.onRequest = () => gameServer.history.push("allocation");
    await using server = await launched(gameServer, matchmaker.address, 2_000);
    await play(matchmaker.address);
    expect(await server.ended).toBe(0);
    expect(server.stderr).not.toMatch(/Agones/);
    expect(gameServer.history.filter((call) => call !== "POST /health")).toEqual([
      ...["PUT /metadata/label", "POST /ready", "allocation", "POST /shutdown"],
    ]);
    expect(api.requests).toBe(1);
  });

  it("allocates itself with its first world if the matchmaker does not allocate it", {
    timeout: 300_000,
  }, async () => {
    await using matchmaker = await matchmakerOf();
    const gameServer = scheduled();
    await using server = await launched(gameServer, matchmaker.address, 60_000);
    await play(matchmaker.address);
    await expect.poll(() => gameServer.state, { timeout: 60_000 }).toBe("Allocated");
    expect(await server.stop()).toBe(0);
    expect(server.stderr).not.toMatch(/Agones/);
    expect(gameServer.history).toContain("POST /allocate");
    expect(gameServer.history).not.toContain("POST /shutdown");
  });
});
