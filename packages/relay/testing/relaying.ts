// SPDX-License-Identifier: Apache-2.0
import { fileURLToPath } from "node:url";
import {
  createEnvironmentServer,
  type DialedOut,
  type DialOutOptions,
  dialOut,
} from "@dm-env-rpc/server";
import { Program, type ServingProgram } from "@dm-env-rpc/tests-processes";
import { type Relay, type RelayEvent, type RelayOptions, serveRelay } from "../src/index.ts";
import { counting } from "./counting.ts";

/** The token of the program `game`. */
export const gameToken = "token-of-the-game";

/** The token of the program `other`. */
export const otherToken = "token-of-the-other";

/** A relay, with the events that it has emitted. */
export interface ServedRelay extends AsyncDisposable {
  readonly relay: Relay;
  /** Address that programs dial. */
  readonly dial: string;
  readonly events: RelayEvent[];
}

/**
 * Serves a relay for the programs `game` and `other`. It pings them rarely by default, so that it loses no program while
 * the machine stalls.
 */
export async function serving({
  limits,
  ...options
}: Partial<RelayOptions> = {}): Promise<ServedRelay> {
  const events: RelayEvent[] = [];
  const relay = await serveRelay({
    programs: [
      { name: "game", token: gameToken },
      { name: "other", token: otherToken },
    ],
    onEvent: (event) => events.push(event),
    limits: { programPingMs: 60_000, ...limits },
    ...options,
  });
  return {
    relay,
    dial: relay.url.replace("http", "ws"),
    events,
    [Symbol.asyncDispose]: () => relay.close(),
  };
}

/** A program in this process that serves one world, created at start. */
export interface DialedProgram extends AsyncDisposable {
  readonly server: ReturnType<typeof createEnvironmentServer>;
  readonly place: DialedOut;
}

/** Dials a relay with a program in this process. */
export async function dialed(
  relay: string,
  token: string,
  options: Partial<DialOutOptions> = {},
): Promise<DialedProgram> {
  const server = createEnvironmentServer({ worlds: [counting], premade: [{}] });
  const place = await dialOut(server, { relay, token, ...options });
  return {
    server,
    place,
    async [Symbol.asyncDispose]() {
      await place.close();
      await server.close();
    },
  };
}

/** Starts a program in a new process. */
export function startProgram(relay: string, token: string): Promise<ServingProgram> {
  const main = fileURLToPath(new URL("programs/program.ts", import.meta.url));
  return Program.serving(main, [relay, token]);
}
