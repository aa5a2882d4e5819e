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
import { parseArgs, promisify } from "node:util";

const sdkUrl = `http://127.0.0.1:${process.env["AGONES_SDK_HTTP_PORT"] ?? "9358"}`;
const healthEveryMs = 5_000;
const { values } = parseArgs({ options: { port: { type: "string" } }, strict: false });
const ownUrl = `http://127.0.0.1:${values.port ?? "8980"}`;

/** The parts of Agones' GameServer that are needed here. */
interface GameServer {
  readonly status?: {
    readonly address?: string;
    readonly ports?: readonly { readonly port: number }[];
  };
}

/** Returns the address at which agents reach this server, once Agones has scheduled it. */
async function advertised(): Promise<string> {
  for (;;) {
    const { status } = await gameServer();
    const port = status?.ports?.[0]?.port;
    if (status?.address && port !== undefined) {
      return `${status.address}:${port}`;
    }
    await delay(500);
  }
}

async function gameServer(): Promise<GameServer> {
  for (let tries = 1; ; tries += 1) {
    try {
      const response = await fetch(`${sdkUrl}/gameserver`);
      if (response.ok) {
        return (await response.json()) as GameServer;
      }
      throw new Error(`status ${response.status}`);
    } catch (cause) {
      // The SDK server is a container beside this one, and may start after it.
      if (tries === 60) {
        throw new Error(`Agones' SDK server at ${sdkUrl} does not answer`, { cause });
      }
      await delay(500);
    }
  }
}

/** Tells the SDK server something, and whether it took it. */
async function tell(what: "ready" | "allocate" | "health"): Promise<boolean> {
  try {
    const headers = { "content-type": "application/json" };
    const options = { method: "POST", headers, body: "{}", signal: AbortSignal.timeout(5_000) };
    const response = await fetch(`${sdkUrl}/${what}`, options);
    if (response.ok) {
      return true;
    }
    throw new Error(`status ${response.status}`);
  } catch (error) {
    process.stderr.write(`Agones did not take "${what}": ${String(error)}\n`);
    return false;
  }
}

let agents = 0;
let serves = false;
let closing = false;
let told: "ready" | "allocate" | undefined;
let telling = false;

/** Tells how it is now; what changes meanwhile is told next, and what was not taken with the next health. */
async function tellState(): Promise<void> {
  if (telling || !serves) {
    return;
  }
  telling = true;
  for (;;) {
    const state = agents === 0 ? "ready" : "allocate";
    if (state === told || closing || !(await tell(state))) {
      break;
    }
    told = state;
  }
  telling = false;
}

/** Asks as the image's HEALTHCHECK does; throws when the server does not serve. */
async function askHealth(): Promise<void> {
  await promisify(execFile)(process.execPath, ["health.ts", ownUrl], { timeout: 5_000 });
}

subscribe("dm-env-rpc:server:agent-joined", () => {
  agents += 1;
  void tellState();
});
subscribe("dm-env-rpc:server:agent-left", () => {
  agents -= 1;
  void tellState();
});
subscribe("dm-env-rpc:server:server-closing", () => {
  closing = true;
});

process.argv.push("--advertise", await advertised());
await import(pathToFileURL("dist/main.js").href);
while (!closing) {
  try {
    await askHealth();
    serves = true;
    await tellState();
    await tell("health");
  } catch (error) {
    if (serves && !closing) {
      process.stderr.write(`${String(error)}\n`);
    }
  }
  await delay(serves ? healthEveryMs : 500, undefined, { ref: false });
}
