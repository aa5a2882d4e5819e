// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import {
  type RegisteredServer,
  type RegistrationEvent,
  type ServeHooks,
  serveRegistered,
} from "@dm-env-rpc/matchmaker/registration";
import type { Server } from "@dm-env-rpc/server";
import type { Flags, MatchmakingFlags } from "./flags.ts";

/**
 * Serves boards that a matchmaker creates for its agents.
 *
 * @throws DmEnvRpcError for a malformed address of a matchmaker.
 * @throws Error for a file that cannot be read.
 */
export async function serveForMatchmaker(
  serve: (hooks: ServeHooks) => Promise<Server>,
  { maxWorlds, tls }: Flags,
  { matchmakers, advertise, region, labels, maxAgents, token, ca }: MatchmakingFlags,
): Promise<RegisteredServer<Server>> {
  return await serveRegistered(serve, {
    matchmakers,
    address: advertise,
    maxWorlds,
    maxAgents,
    worldTypes: ["gridworld"],
    region,
    labels,
    token: token === undefined ? undefined : readText("--matchmaker-token", token),
    tls: {
      ...(ca === undefined ? {} : { ca: readText("--matchmaker-ca", ca) }),
      ...(tls === undefined
        ? {}
        : { cert: readText("--tls-cert", tls.cert), key: readText("--tls-key", tls.key) }),
    },
    onEvent: createLog(),
  });
}

/** Returns a function that logs each change of the registration. */
function createLog(): (event: RegistrationEvent) => void {
  let last: string | undefined;
  return (event) => {
    const text = textOf(event);
    if (text === last) {
      return;
    }
    last = text;
    const output = event.kind === "registered" ? process.stdout : process.stderr;
    output.write(`${text}\n`);
  };
}

function textOf(event: RegistrationEvent): string {
  if (event.kind === "registered") {
    return `registered with ${event.matchmaker}`;
  }
  const why = event.error.message.replaceAll("\n", " ");
  return event.kind === "failed"
    ? `not registered: ${why}; trying again`
    : `the load is not reported: ${why}`;
}

function readText(flag: string, file: string): string {
  try {
    return readFileSync(file, "utf8").trim();
  } catch (error) {
    throw new Error(`${flag}: expected a readable file, received ${String(error)}; see --help`, {
      cause: error,
    });
  }
}
