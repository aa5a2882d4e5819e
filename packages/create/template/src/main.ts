import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type ServeHooks, serveRegistered } from "@dm-env-rpc/matchmaker/registration";
import { serve } from "@dm-env-rpc/server";
import { addServerMetrics, serveMetrics } from "@dm-env-rpc/server/metrics";
import { collectDefaultMetrics, Registry } from "prom-client";
import { world } from "./world.ts";

const { values: flags } = parseArgs({
  options: {
    host: { type: "string", default: "127.0.0.1" },
    port: { type: "string", default: "8980" },
    // Accepts other machines without TLS, for a network that can be trusted.
    "allow-insecure": { type: "boolean", default: false },
    // Serves a page at the same address, where people watch the worlds and play; not with a matchmaker.
    page: { type: "boolean", default: false },
    // Time for agents to receive the end of their sequences after SIGTERM.
    "grace-ms": { type: "string", default: "5000" },
    // Serves metrics for Prometheus on this port, at /metrics.
    "metrics-port": { type: "string" },
    "max-worlds": { type: "string", default: "1000" },
    // With a matchmaker, only the matchmaker creates worlds and sends agents.
    matchmaker: { type: "string", multiple: true },
    // Address at which the matchmaker and agents reach this server. Default: the address that this server listens on.
    advertise: { type: "string" },
    "max-agents": { type: "string", default: "1000" },
    // A file with the token that lets this server register.
    "matchmaker-token": { type: "string" },
  },
});

const maxWorlds = Number(flags["max-worlds"]);

function serveWorlds(hooks?: ServeHooks) {
  return serve({
    worlds: [world],
    host: flags.host,
    port: Number(flags.port),
    allowInsecure: flags["allow-insecure"],
    limits: { maxWorlds },
    page: flags.page,
    ...hooks,
    onEvent(event) {
      hooks?.onEvent(event);
      if (event.kind === "world-failed") {
        console.error(event.error);
      }
    },
  });
}

function serveForMatchmaker(matchmakers: readonly string[]) {
  const token = flags["matchmaker-token"];
  return serveRegistered(serveWorlds, {
    matchmakers,
    address: flags.advertise,
    maxWorlds,
    maxAgents: Number(flags["max-agents"]),
    worldTypes: [world.name],
    token: token === undefined ? undefined : readFileSync(token, "utf8").trim(),
    onEvent(event) {
      if (event.kind === "registered") {
        console.log(`registered with ${event.matchmaker}`);
      } else {
        console.error(`not registered: ${event.error.message}; retrying`);
      }
    },
  });
}

const { matchmaker } = flags;
const serving =
  matchmaker === undefined ? await serveWorlds() : await serveForMatchmaker(matchmaker);
const server = "server" in serving ? serving.server : serving;

async function exposeMetrics(port: number) {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  addServerMetrics(server, registry);
  return await serveMetrics(registry, { host: flags.host, port, onError: console.error });
}

const metricsPort = flags["metrics-port"];
const metrics = metricsPort === undefined ? undefined : await exposeMetrics(Number(metricsPort));

let stopping = false;
function stop(): void {
  const graceMs = stopping ? 0 : Number(flags["grace-ms"]);
  stopping = true;
  void serving.close({ graceMs }).then(() => metrics?.close());
}
process.on("SIGTERM", stop);
process.on("SIGINT", stop);

console.log(`listening on ${server.url}`);
if (metrics !== undefined) {
  console.log(`metrics at ${metrics.url}`);
}
