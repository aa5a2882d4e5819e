// SPDX-License-Identifier: Apache-2.0
import type { JoinOptions } from "@dm-env-rpc/client";
import { serve } from "@dm-env-rpc/server";
import type { Load } from "../loads/load.ts";
import type { Served } from "../peers/peer.ts";

/** Serves a load as our own server does, a world for each connection. */
export async function served(load: Load): Promise<Served> {
  const server = await serve({ worlds: [load.world], limits: { maxWorlds: 10_000 } });
  return { port: server.port, close: () => server.close() };
}

/** What everybody asks for: the load's observations, of which reward and discount are no part of the record. */
export function joinOptions({ world: { actions, observations } }: Load): JoinOptions {
  return {
    as: { actions: actions as never, observations: observations as never },
    destroyOnClose: true,
  };
}
