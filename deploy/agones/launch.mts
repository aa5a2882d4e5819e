// SPDX-License-Identifier: Apache-2.0
// usage: node launch.mts [options of the gridworld server]
//
// Starts the gridworld server of the image under Agones, and speaks for it to Agones' SDK server
// (REST, in the same pod): it is Ready when its gRPC health is SERVING, Allocated while agents are on
// it, so that Agones keeps it, and alive as long as it answers. Agones knows at which port of which
// machine it is reached: that is what it is advertised with.
import { execFile } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { setTimeout as delay } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { promisify } from "node:util";

const sdkUrl = `http://127.0.0.1:${process.env["AGONES_SDK_HTTP_PORT"] ?? "9358"}`;
const healthEveryMs = 5_000;
const args = process.argv.slice(2);

/** What Agones says of this server, as far as it is needed here. */
interface GameServer {
  readonly status?: {
    readonly address?: string;
    readonly ports?: readonly { readonly port: number }[];
  };
}

/** Where agents reach this server, once Agones has found a machine for it. */
async function advertised(): Promise<string> {
  for (;;) {
    const { status } = await gameServer();
    const port = status?.ports?.[0]?.port;
    if (status?.address && port !== undefined) return `${status.address}:${port}`;
    await delay(500);
  }
}

async function gameServer(): Promise<GameServer> {
  for (let tries = 1; ; tries += 1) {
    try {
      const response = await fetch(`${sdkUrl}/gameserver`);
      if (response.ok) return (await response.json()) as GameServer;
      throw new Error(`status ${response.status}`);
    } catch (cause) {
      // The SDK server is a container beside this one, and may start after it.
      if (tries === 60)
        throw new Error(`Agones' SDK server at ${sdkUrl} does not answer`, { cause });
      await delay(500);
    }
  }
}

/** One after the other, so that the last one said is the one that holds. */
let said: Promise<void> = Promise.resolve();
function say(path: "ready" | "allocate" | "health"): void {
  said = said.then(async () => {
    try {
      const headers = { "content-type": "application/json" };
      const options = { method: "POST", headers, body: "{}", signal: AbortSignal.timeout(5_000) };
      const response = await fetch(`${sdkUrl}/${path}`, options);
      if (!response.ok) throw new Error(`status ${response.status}`);
    } catch (error) {
      process.stderr.write(`Agones did not take "${path}": ${String(error)}\n`);
    }
  });
}

/** Asks as the image's HEALTHCHECK does; throws when the server does not serve. */
async function askHealth(port: string): Promise<void> {
  const probe = promisify(execFile);
  await probe(process.execPath, ["health.ts", `http://127.0.0.1:${port}`], { timeout: 5_000 });
}

function portOf(options: readonly string[]): string {
  const option = options.find((each) => each.startsWith("--port="));
  return option?.slice("--port=".length) ?? "8980";
}

let agents = 0;
let ready = false;
subscribe("dm-env-rpc:server:agent-joined", () => {
  agents += 1;
  if (agents === 1) say("allocate");
});
subscribe("dm-env-rpc:server:agent-left", () => {
  agents -= 1;
  if (agents === 0) say("ready");
});
let closing = false;
subscribe("dm-env-rpc:server:server-closing", () => {
  closing = true;
});

process.argv.push("--advertise", await advertised());
await import(pathToFileURL("dist/main.js").href);
while (!closing) {
  try {
    await askHealth(portOf(args));
    if (!ready) say("ready");
    ready = true;
    say("health");
  } catch (error) {
    if (ready && !closing) process.stderr.write(`${String(error)}\n`);
  }
  await delay(ready ? healthEveryMs : 500, undefined, { ref: false });
}
