#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import type { ServeHooks } from "@dm-env-rpc/matchmaker/registration";
import { type Authorize, type ListenTls, type Server, serve } from "@dm-env-rpc/server";
import { addServerMetrics, type MetricsEndpoint, serveMetrics } from "@dm-env-rpc/server/metrics";
import { collectDefaultMetrics, Registry } from "prom-client";
import { clocks } from "./clocks.ts";
import { type Flags, help, readFlags, type TlsFiles } from "./flags.ts";
import { createLog } from "./log.ts";
import { serveForMatchmaker } from "./matchmaking.ts";
import { gridworld } from "./world.ts";

async function main(): Promise<void> {
  const flags = readFlags(process.argv.slice(2));
  if (flags.show === "help") {
    process.stdout.write(help);
    return;
  }
  if (flags.show === "version") {
    const manifest = new URL("../package.json", import.meta.url);
    process.stdout.write(`${JSON.parse(readFileSync(manifest, "utf8")).version}\n`);
    return;
  }
  const { matchmaking } = flags;
  if (matchmaking === undefined) {
    const server = await serveBoards(flags);
    await run(server, server, flags);
    return;
  }
  const registered = await serveForMatchmaker(
    (hooks) => serveBoards(flags, hooks),
    flags,
    matchmaking,
  );
  await run(registered, registered.server, flags);
}

/** @param served The server, with its registration if it has one. */
async function run(served: Pick<Server, "close">, server: Server, flags: Flags): Promise<void> {
  const metrics = await exposeMetrics(server, flags);
  stopOnSignals(served, metrics, flags.graceMs);
  process.stdout.write(`listening on ${server.url}\n`);
  if (metrics !== undefined) {
    process.stdout.write(`metrics at ${metrics.url}\n`);
  }
}

async function exposeMetrics(
  server: Server,
  { host, metricsPort }: Flags,
): Promise<MetricsEndpoint | undefined> {
  if (metricsPort === undefined) {
    return undefined;
  }
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  addServerMetrics(server, registry);
  return await serveMetrics(registry, {
    host: host.startsWith("unix:") ? undefined : host,
    port: metricsPort,
    onError: (error) => process.stderr.write(`metrics: ${error.message}\n`),
  });
}

const log = createLog((text) => process.stderr.write(text));

/** @param hooks Hooks of a matchmaker that decides the roles of callers. */
async function serveBoards(flags: Flags, hooks?: ServeHooks): Promise<Server> {
  const { host, port, allowInsecure, page, tls, clock, destroy } = flags;
  const { listenBacklog, maxWorlds, idleWorldMs } = flags;
  return await serve({
    worlds: [gridworld(clocks[clock].make(flags), destroy)],
    host,
    port,
    allowInsecure,
    page,
    // With a page and without a matchmaker, a board to watch exists from the start.
    premade: page && hooks === undefined ? [{}] : [],
    ...(tls === undefined ? {} : { tls: readTls(tls) }),
    limits: { listenBacklog, maxWorlds, idleWorldMs },
    ...hooks,
    ...(hooks !== undefined && page ? { authorize: withSpectators(hooks.authorize) } : {}),
    onEvent: (event) => {
      hooks?.onEvent(event);
      log(event);
    },
  });
}

/** Grants every caller with access the role of a spectator too. */
function withSpectators(authorize: Authorize): Authorize {
  return async (peer) => {
    const roles = await authorize(peer);
    return roles && [...roles, "spectator"];
  };
}

function readTls({ cert, key, ca }: TlsFiles): ListenTls {
  return {
    cert: readPem("--tls-cert", cert),
    key: readPem("--tls-key", key),
    ...(ca === undefined
      ? {}
      : { ca: readPem("--tls-ca", ca), clientCertificates: "required" as const }),
  };
}

function readPem(flag: string, file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new Error(
      `${flag}: expected a readable PEM file, received ${String(error)}; see --help`,
      {
        cause: error,
      },
    );
  }
}

function stopOnSignals(
  server: Pick<Server, "close">,
  metrics: MetricsEndpoint | undefined,
  graceMs: number,
): void {
  let signals = 0;
  const stop = (): void => {
    signals += 1;
    // Metrics can be scraped until the server is closed.
    server
      .close({ graceMs: signals === 1 ? graceMs : 0 })
      .then(() => metrics?.close())
      .then(
        () => process.exit(0),
        (error: unknown) => fail(error),
      );
  };
  process.on("SIGTERM", stop);
  process.on("SIGINT", stop);
}

function fail(error: unknown): void {
  const [line] = (error instanceof Error ? error.message : String(error)).split("\n");
  process.stderr.write(`${line}\n`);
  process.exit(1);
}

main().catch(fail);
