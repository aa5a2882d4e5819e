#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { Health } from "@dm-env-rpc/protocol/health";
import { type RelayEvent, serveRelay } from "@dm-env-rpc/relay";
import { addReflection, createHealthBoard } from "@dm-env-rpc/server";
import { serveMetrics } from "@dm-env-rpc/server/metrics";
import { LineLimit } from "@dm-env-rpc/transport/internal";
import { type Level, pino } from "pino";
import { help, readFlags } from "./flags.ts";
import { createMetrics } from "./metrics.ts";
import { readPrograms } from "./programs.ts";

/** Time that streams have to end after a signal. */
const graceMs = 1_000;

const levels: Readonly<Record<RelayEvent["kind"], Level>> = {
  "program-joined": "info",
  "program-refused": "warn",
  "program-lost": "info",
  "agent-joined": "debug",
  "agent-left": "debug",
  "transport-error": "debug",
};

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
  const { host, tlsCert, tlsKey } = flags;
  if (flags.programs === undefined) {
    throw new Error(
      "--programs: expected a file with the programs that may dial in, received none; see --help",
    );
  }
  const logger = pino({ level: flags.logLevel, base: null }, pino.destination(2));
  // Anyone who reaches the port can cause refusals.
  const refusals = new LineLimit((kind, lines, seconds) =>
    logger.warn({ lines, seconds }, `${kind}: more lines were skipped`),
  );
  const metrics = createMetrics();
  const health = createHealthBoard([]);
  const relay = await serveRelay({
    programs: readPrograms(readFileSync(flags.programs, "utf8"), flags.programs),
    host,
    port: flags.port,
    publicHost: flags.publicHost,
    programPorts: flags.programPorts,
    allowedOrigins: flags.allowedOrigins,
    allowInsecure: flags.allowInsecure,
    limits: flags.limits,
    tls:
      tlsCert === undefined || tlsKey === undefined
        ? undefined
        : { cert: readFileSync(tlsCert, "utf8"), key: readFileSync(tlsKey, "utf8") },
    routes: (router) => {
      router.service(Health, health.service);
      addReflection(router, []);
    },
    byteStreams: health.byteStreams,
    onEvent: (event) => {
      metrics.note(event);
      const { kind, ...facts } = event;
      const err = "error" in facts ? { err: facts.error, error: undefined } : {};
      if (kind !== "program-refused" || refusals.admits(kind)) {
        logger[levels[kind]]({ ...facts, ...err }, kind);
      }
    },
  });
  metrics.watch(relay);
  const exporter =
    flags.metricsPort === undefined
      ? undefined
      : await serveMetrics(metrics.registry, {
          host,
          port: flags.metricsPort,
          onError: (error) => logger.error({ err: error }, "metrics"),
        });
  const stop = (): void => {
    refusals.flush();
    health.stopServing();
    health.close();
    Promise.all([relay.close({ graceMs }), exporter?.close()]).then(
      () => process.exit(0),
      (error: unknown) => fail(error),
    );
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
  process.stdout.write(`listening on ${relay.url}\n`);
  if (exporter !== undefined) {
    process.stdout.write(`metrics at ${exporter.url}\n`);
  }
}

function fail(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  process.stderr.write(`${text.replaceAll("\n", " ")}\n`);
  process.exit(1);
}

main().catch(fail);
