// SPDX-License-Identifier: Apache-2.0
// usage: node launch.mts [options of the gridworld server]
//
// Starts the gridworld server of the image under Agones, and reports for it to Agones' SDK server (REST, in
// the same pod): Ready once its gRPC health is SERVING, and healthy while it answers.
//
// The matchmaker allocates the GameServer before it creates the first world (--agones-namespace). It finds it by
// the label agones.dev/sdk-server, which is set here and which the server registers with. A server that
// has a world but is not allocated allocates itself. An allocated server that has had no world for
// RELEASE_AFTER_MS shuts down, and the fleet replaces it.
import { execFile } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { parseArgs, promisify } from "node:util";

const sdkUrl = `http://127.0.0.1:${process.env["AGONES_SDK_HTTP_PORT"] ?? "9358"}`;
const releaseAfterMs = Number(process.env["RELEASE_AFTER_MS"] ?? 60_000);
const healthEveryMs = Math.min(5_000, releaseAfterMs);
const { values } = parseArgs({ options: { port: { type: "string" } }, strict: false });
const ownUrl = `http://127.0.0.1:${values.port ?? "8980"}`;

/** The parts of Agones' GameServer that are needed here. */
interface GameServer {
  readonly object_meta?: {
    readonly name?: string;
    readonly labels?: Readonly<Record<string, string>>;
  };
  readonly status?: {
    readonly state?: string;
    readonly address?: string;
    readonly ports?: readonly { readonly port: number }[];
  };
}

/** Calls the SDK server; throws unless it answers with success. */
async function call(method: "GET" | "POST" | "PUT", path: string, body?: object) {
  const headers = { "content-type": "application/json" };
  const signal = AbortSignal.timeout(5_000);
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  const response = await fetch(`${sdkUrl}${path}`, { method, headers, signal, ...content });
  if (!response.ok) {
    throw new Error(`Agones' SDK server refused ${method} ${path}: status ${response.status}`);
  }
  return response;
}

async function gameServer(): Promise<GameServer> {
  return (await (await call("GET", "/gameserver")).json()) as GameServer;
}

/** Returns the GameServer of this pod and the address at which agents reach it, once it is scheduled. */
async function scheduled(): Promise<{ readonly own: GameServer; readonly address: string }> {
  let failures = 0;
  for (;;) {
    try {
      const own = await gameServer();
      const port = own.status?.ports?.[0]?.port;
      if (own.status?.address && port !== undefined) {
        return { own, address: `${own.status.address}:${port}` };
      }
    } catch (cause) {
      // The SDK server is a container beside this one, and may start after it.
      failures += 1;
      if (failures === 60) {
        throw new Error(`Agones' SDK server at ${sdkUrl} does not answer`, { cause });
      }
    }
    await delay(500);
  }
}

/** Checks the health as the image's HEALTHCHECK does; throws if the server does not serve. */
async function checkHealth(): Promise<void> {
  await promisify(execFile)(process.execPath, ["health.ts", ownUrl], { timeout: 5_000 });
}

const worlds = new Set<unknown>();
/** Time of the last report with a world, or of the first one after the allocation. */
let idleSinceMs = performance.now();
let isAllocated = false;
let isReady = false;
let closing = false;

const nameOf = (event: unknown): unknown => (event as { readonly worldName?: string }).worldName;
subscribe("dm-env-rpc:server:world-created", (event) => {
  worlds.add(nameOf(event));
  void attempt(followState);
});
for (const kind of ["world-destroyed", "world-failed"]) {
  subscribe(`dm-env-rpc:server:${kind}`, (event) => {
    worlds.delete(nameOf(event));
  });
}
subscribe("dm-env-rpc:server:server-closing", () => {
  closing = true;
});

/** Reports that the server is ready and healthy, as long as it answers. */
async function reportHealth(): Promise<void> {
  await checkHealth();
  if (!isReady) {
    await call("POST", "/ready", {});
    isReady = true;
  }
  await call("POST", "/health", {});
}

/** Allocates a server with a world that is not allocated, and ends an allocated one that has no world. */
async function followState(): Promise<void> {
  const state = (await gameServer()).status?.state;
  if (worlds.size > 0 || !isAllocated) {
    idleSinceMs = performance.now();
  }
  isAllocated = state === "Allocated";
  if (worlds.size > 0 && state === "Ready") {
    await call("POST", "/allocate", {});
  } else if (performance.now() - idleSinceMs >= releaseAfterMs) {
    await call("POST", "/shutdown", {});
    // The server deregisters now, so that the matchmaker places no worlds on it until Agones stops the pod.
    process.kill(process.pid, "SIGTERM");
  }
}

/** Runs a step, which the next round repeats if it fails. */
async function attempt(step: () => Promise<void>): Promise<void> {
  try {
    await step();
  } catch (error) {
    if (isReady && !closing) {
      process.stderr.write(`${String(error)}\n`);
    }
  }
}

const { own, address } = await scheduled();
const name = own.object_meta?.name ?? "";
await call("PUT", "/metadata/label", { key: "server", value: name });
const labels = { ...own.object_meta?.labels, "agones.dev/sdk-server": name };
process.argv.push("--advertise", address);
for (const [key, value] of Object.entries(labels)) {
  process.argv.push("--label", `${key}=${value}`);
}
await import(pathToFileURL("dist/main.js").href);
while (!closing) {
  await attempt(reportHealth);
  await attempt(followState);
  await delay(isReady ? healthEveryMs : 500, undefined, { ref: false });
}
