#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { serveMatchmaker, signingKeyFromPem } from "@dm-env-rpc/matchmaker";
import { redisStore } from "@dm-env-rpc/matchmaker/redis";
import { Health } from "@dm-env-rpc/protocol/health";
import { pino } from "pino";
import { type Flags, help, readFlags } from "./flags.ts";
import { healthService } from "./health.ts";
import { logEvent } from "./log.ts";
import { createMetrics } from "./metrics.ts";
import { readProfiles } from "./profiles.ts";

/** How long calls may go on after a signal. */
const graceMs = 1_000;

async function main(): Promise<void> {
  const flags = readFlags(process.argv.slice(2), process.env);
  if (flags.show === "help") {
    process.stdout.write(help);
    return;
  }
  if (flags.show === "version") {
    const manifest = new URL("../package.json", import.meta.url);
    process.stdout.write(`${JSON.parse(readFileSync(manifest, "utf8")).version}\n`);
    return;
  }
  const logger = pino({ level: flags.logLevel, base: null }, pino.destination(2));
  const metrics = createMetrics();
  const stopping = new AbortController();
  const text = (file: string | undefined): string | undefined =>
    file === undefined ? undefined : readFileSync(file, "utf8");
  const [key, ca] = [text(flags.key), text(flags.ca)];
  const profiles = readProfiles(text(flags.profiles) ?? "[]", flags.profiles ?? "");
  const server = await serveMatchmaker({
    host: flags.host,
    port: flags.port,
    allowInsecure: flags.allowInsecure,
    listenTls: listenTls(flags),
    profiles,
    signingKey: key === undefined ? undefined : await signingKeyFromPem(key),
    tls: ca === undefined ? undefined : { ca },
    store:
      flags.redis === undefined
        ? undefined
        : await redisStore({
            url: flags.redis,
            prefix: flags.redisPrefix,
            onError: (error) => logger.warn({ err: error }, "redis"),
          }),
    routes: (router) => router.service(Health, healthService(stopping.signal)),
    onEvent: (event) => {
      metrics.note(event);
      logEvent(logger, event);
    },
    onTransportError: (error) => logger.debug({ err: error }, "transport"),
  });
  metrics.watch(server.matchmaker);
  const exporter =
    flags.metricsPort === undefined
      ? undefined
      : await metrics.serve(flags.host, flags.metricsPort);
  process.stdout.write(`listening on ${server.url}\n`);
  if (exporter !== undefined) process.stdout.write(`metrics at ${exporter.url}\n`);

  const stop = (): void => {
    stopping.abort();
    // A world that is being created may take its time, and another matchmaker goes on with it.
    setTimeout(() => process.exit(0), 5 * graceMs).unref();
    Promise.all([server.close({ graceMs }), exporter?.close()]).then(
      () => process.exit(0),
      (error: unknown) => fail(error),
    );
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
}

function listenTls({ tlsCert, tlsKey }: Flags): { cert: string; key: string } | undefined {
  if (tlsCert === undefined || tlsKey === undefined) return undefined;
  return { cert: readFileSync(tlsCert, "utf8"), key: readFileSync(tlsKey, "utf8") };
}

function fail(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  process.stderr.write(`${text.replaceAll("\n", " ")}\n`);
  process.exit(1);
}

main().catch(fail);
