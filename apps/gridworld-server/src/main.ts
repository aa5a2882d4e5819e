#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import type { ServeHooks } from "@dm-env-rpc/matchmaker/registration";
import { type Authorize, type ListenTls, type Server, serve } from "@dm-env-rpc/server";
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
    stopOnSignals(server, flags.graceMs);
    process.stdout.write(`listening on ${server.url}\n`);
    return;
  }
  const registered = await serveForMatchmaker(
    (hooks) => serveBoards(flags, hooks),
    flags,
    matchmaking,
  );
  stopOnSignals(registered, flags.graceMs);
  process.stdout.write(`listening on ${registered.server.url}\n`);
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
    // Without a matchmaker, one board exists from the start.
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

function stopOnSignals(server: Pick<Server, "close">, graceMs: number): void {
  let signals = 0;
  const stop = (): void => {
    signals += 1;
    server.close({ graceMs: signals === 1 ? graceMs : 0 }).then(
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
