#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import { type CallerRole, serveMatchmaker, signingKeyFromPem } from "@dm-env-rpc/matchmaker";
import { redisStore } from "@dm-env-rpc/matchmaker/redis";
import { Health } from "@dm-env-rpc/protocol/health";
import { AdminService, FrontendService, RegistryService } from "@dm-env-rpc/protocol/matchmaker";
import { addReflection, createHealthBoard } from "@dm-env-rpc/server";
import { serveMetrics } from "@dm-env-rpc/server/metrics";
import type { ListenTls, OpenTls } from "@dm-env-rpc/transport";
import { pino } from "pino";
import { allocatorFrom } from "./agones.ts";
import { authorizeBy, readTokens } from "./authorize.ts";
import { type Flags, help, readFlags } from "./flags.ts";
import { createLog } from "./log.ts";
import { createMetrics } from "./metrics.ts";
import { readProfiles } from "./profiles.ts";

/** Time for open calls to finish after a signal, in ms. */
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
  const log = createLog(logger);
  const metrics = createMetrics();
  const services = [FrontendService, RegistryService, AdminService];
  const health = createHealthBoard(services.map(({ typeName }) => typeName));
  const text = (file: string | undefined): string | undefined =>
    file === undefined ? undefined : readFileSync(file, "utf8");
  const [key, ca] = [text(flags.key), text(flags.ca)];
  const token = (flag: string, file: string | undefined): string | undefined => {
    const content = text(file);
    return content === undefined ? undefined : tokenIn(content, flag, file);
  };
  const tokens = (file: string | undefined): ReadonlyMap<string, string> | undefined =>
    file === undefined ? undefined : readTokens(readFileSync(file, "utf8"), file);
  const authorities = new Map<CallerRole, string>();
  for (const [role, file] of [
    ["operator", flags.operatorCa],
    ["server", flags.serverCa],
    ["agent", flags.agentCa],
  ] as const) {
    const authority = text(file);
    if (authority !== undefined) {
      authorities.set(role, authority);
    }
  }
  const profiles = readProfiles(text(flags.profiles) ?? "[]", flags.profiles ?? "");
  const server = await serveMatchmaker({
    host: flags.host,
    port: flags.port,
    allowInsecure: flags.allowInsecure,
    allowedOrigins: flags.allowedOrigins,
    page: flags.page,
    listenTls: listenTls(flags, [...authorities.values()]),
    authorize: authorizeBy({
      operatorToken: token("--operator-token", flags.operatorToken),
      serverToken: token("--server-token", flags.serverToken),
      serverTokens: tokens(flags.serverTokens),
      agentTokens: tokens(flags.agentTokens),
      authorities,
    }),
    profiles,
    settings: flags.settings,
    signingKey: key === undefined ? undefined : await signingKeyFromPem(key),
    tls: openTls(flags, ca),
    allocator: allocatorFrom(flags),
    store:
      flags.redis === undefined
        ? undefined
        : await redisStore({
            url: flags.redis,
            prefix: flags.redisPrefix,
            tls: openTls(flags, ca),
            onError: (error) => logger.warn({ err: error }, "redis"),
          }),
    routes: (router) => {
      router.service(Health, health.service);
      addReflection(router, []);
    },
    byteStreams: health.byteStreams,
    onEvent: (event) => {
      // Without the store the services are not healthy, but the process is: a restart would not help.
      if (event.kind === "store-failed" || event.kind === "store-recovered") {
        for (const { typeName } of services) {
          health.setServing(typeName, event.kind === "store-recovered");
        }
      }
      metrics.note(event);
      log.note(event);
    },
    onTransportError: (error) => logger.debug({ err: error }, "transport"),
  });
  metrics.watch(server);
  const exporter =
    flags.metricsPort === undefined
      ? undefined
      : await serveMetrics(metrics.registry, {
          host: flags.host,
          port: flags.metricsPort,
          onError: (error) => logger.error({ err: error }, "metrics"),
        });
  const stop = (): void => {
    health.stopServing();
    health.close();
    const exit = (): void => {
      log.flush();
      process.exit(0);
    };
    // Exits even if a world is still being created: another matchmaker takes over.
    setTimeout(exit, 5 * graceMs).unref();
    Promise.all([server.close({ graceMs }), exporter?.close()]).then(exit, (error: unknown) => {
      log.flush();
      fail(error);
    });
  };
  process.once("SIGTERM", stop);
  process.once("SIGINT", stop);
  // The parent process may send a signal as soon as it reads this line, so the handlers are
  // installed first.
  process.stdout.write(`listening on ${server.url}\n`);
  if (exporter !== undefined) {
    process.stdout.write(`metrics at ${exporter.url}\n`);
  }
}

function listenTls(
  { tlsCert, tlsKey }: Flags,
  authorities: readonly string[],
): ListenTls | undefined {
  if (tlsCert === undefined || tlsKey === undefined) {
    return undefined;
  }
  return {
    cert: readFileSync(tlsCert, "utf8"),
    key: readFileSync(tlsKey, "utf8"),
    ...(authorities.length === 0 ? {} : { ca: authorities, clientCertificates: "optional" }),
  };
}

/** Returns the TLS options for environment servers and Redis. */
function openTls({ clientCert, clientKey }: Flags, ca: string | undefined): OpenTls {
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(clientCert === undefined || clientKey === undefined
      ? {}
      : { cert: readFileSync(clientCert, "utf8"), key: readFileSync(clientKey, "utf8") }),
  };
}

function tokenIn(text: string, flag: string, file: string | undefined): string {
  const token = text.trim();
  if (/^\S+$/.test(token)) {
    return token;
  }
  throw new Error(`${flag}: expected a file that contains one token, received ${file}`);
}

function fail(error: unknown): void {
  const text = error instanceof Error ? error.message : String(error);
  process.stderr.write(`${text.replaceAll("\n", " ")}\n`);
  process.exit(1);
}

main().catch(fail);
