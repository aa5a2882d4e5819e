// SPDX-License-Identifier: Apache-2.0
import { defineWorld, lockstep, type Server, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import {
  type Registration,
  type RegistrationOptions,
  register,
  type ServedWorld,
} from "../src/registration/index.ts";

/** Counts the steps of two agents, three to a sequence. */
export const counting = defineWorld({
  name: "counting",
  settings: { start: t.int32() },
  actions: { add: t.int32() },
  observations: { total: t.int32() },
  agents: { min: 2, max: 2 },
  clock: lockstep(),
  create({ settings }) {
    let total = 0;
    let ticks = 0;
    return {
      start() {
        total = settings.start;
        ticks = 0;
      },
      step(actions) {
        ticks += 1;
        for (const { add = 0 } of actions.values()) total += add;
      },
      observe: { total: () => total },
      status: () => (ticks >= 3 ? "terminated" : "running"),
    };
  },
});

/** An environment server that registers with a matchmaker. */
export interface RegisteredServer extends AsyncDisposable {
  readonly server: Server;
  readonly registration: Registration;
}

/** Serves and registers. Only the matchmaker may create worlds. */
export async function serveRegistered(
  matchmakers: string | readonly string[],
  options: Partial<RegistrationOptions> = {},
): Promise<RegisteredServer> {
  const worlds = new Map<string, ServedWorld>();
  let registration: Registration | undefined;
  const change = (name: string, by: number): void => {
    const world = worlds.get(name);
    if (world !== undefined) {
      const { agents, joins } = world;
      worlds.set(name, { ...world, agents: agents + by, joins: joins + Math.max(0, by) });
    }
    registration?.changed();
  };
  const server = await serve({
    worlds: [counting],
    authorize: (peer) => registration?.authorize(peer) ?? ["agent"],
    onEvent: (event) => {
      switch (event.kind) {
        case "world-created": {
          const { worldName: name, worldType: type } = event;
          worlds.set(name, { name, type, agents: 0, joins: 0, sequences: 0 });
          registration?.changed();
          break;
        }
        case "world-destroyed":
        case "world-failed":
          worlds.delete(event.worldName);
          registration?.changed();
          break;
        case "agent-joined":
          change(event.worldName, 1);
          break;
        case "agent-left":
          change(event.worldName, -1);
          break;
        default:
          break;
      }
    },
  });
  const made = register({
    matchmakers,
    address: server.url,
    maxWorlds: 10,
    maxAgents: 20,
    worldTypes: [counting.name],
    worlds: () => [...worlds.values()],
    joinTokens: false,
    ...options,
  });
  registration = made;
  return {
    server,
    registration: made,
    async [Symbol.asyncDispose]() {
      await made.close();
      await server.close();
    },
  };
}
