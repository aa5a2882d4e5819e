// SPDX-License-Identifier: Apache-2.0
import { connect, type Environment } from "@dm-env-rpc/client";
import type { Load } from "../loads/load.ts";
import { moveAt, type Peer } from "../peers/peer.ts";
import { joinOptions } from "./served.ts";
import { type Agent, inLoops, inRounds } from "./turns.ts";

/** As many environments as steps are in flight, each with its own connection. A round steps each once, and waits for all. */
export const environmentsInRounds: Peer = inRounds(join);

/** The same environments, each stepped in a loop of its own. */
export const environmentsInLoops: Peer = inLoops(join);

async function join(load: Load, port: number): Promise<Agent> {
  const connection = await connect(`127.0.0.1:${port}`);
  const world = await connection.createWorld();
  const environment: Environment = await connection.join(world, joinOptions(load));
  await environment.reset();
  return {
    step: (tick) => environment.step({ move: moveAt(tick) }),
    async close() {
      await environment.close();
      await connection.close();
    },
  };
}
