// SPDX-License-Identifier: Apache-2.0
import { defineWorld, lockstep, type Server, serve } from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import {
  type RegisteredServer,
  type ServeRegisteredOptions,
  serveRegistered,
} from "../src/registration/index.ts";

/** A world that adds up the actions of two agents, in sequences of three steps. */
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
        for (const { add = 0 } of actions.values()) {
          total += add;
        }
      },
      observe: { total: () => total },
      status: () => (ticks >= 3 ? "terminated" : "running"),
    };
  },
});

/** Serves the counting world to agents that matchmakers assign. */
export function serveCounting(
  matchmakers: string | readonly string[],
  options: Partial<ServeRegisteredOptions> = {},
): Promise<RegisteredServer<Server>> {
  return serveRegistered((hooks) => serve({ worlds: [counting], ...hooks }), {
    matchmakers,
    maxWorlds: 10,
    maxAgents: 20,
    worldTypes: [counting.name],
    // So long that a call is answered in time even if the machine stalls.
    timeoutMs: 60_000,
    ...options,
  });
}
