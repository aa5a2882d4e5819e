// SPDX-License-Identifier: Apache-2.0
import type { JoinOptions } from "@dm-env-rpc/client";
import { serve } from "@dm-env-rpc/server";
import type { Load } from "../loads/load.ts";
import type { Served } from "../peers/peer.ts";

/** Serves a load with our own server, one world per connection. */
export async function served(load: Load): Promise<Served> {
  const server = await serve({ worlds: [load.world], limits: { maxWorlds: 10_000 } });
  return { port: server.port, close: () => server.close() };
}

/** Join options of every contender: the load's observations, without reward and discount. */
export function joinOptions({ world: { actions, observations } }: Load): JoinOptions {
  return {
    as: { actions: actions as never, observations: observations as never },
    destroyOnClose: true,
  };
}
