// SPDX-License-Identifier: Apache-2.0
import { connect, type Environment } from "@dm-env-rpc/client";
import type { Load } from "../loads/load.ts";
import { oursEach } from "../peers/ours.ts";
import { moveAt, type Peer, type Turn } from "../peers/peer.ts";
import { joinOptions, served } from "./served.ts";

/** As many environments as steps are in flight, each on a connection of its own, all stepped before the next step. */
export const environmentsInRounds: Peer = {
  serve: served,
  async connect(load, port, count) {
    const environments = await Promise.all(Array.from({ length: count }, () => join(load, port)));
    let tick = 0;
    return {
      async play({ until, latencies }: Turn) {
        const before = tick;
        for (let now = performance.now(); now < until; ) {
          const steps = await Promise.all(
            environments.map((environment) => environment.step({ move: moveAt(tick) })),
          );
          tick += 1;
          for (const step of steps) load.check(tick, step);
          const then = now;
          now = performance.now();
          latencies.record((now - then) * 1000);
        }
        return (tick - before) * count;
      },
      close: async () => {
        await Promise.all(environments.map(leave));
      },
    };
  },
};

/** The same environments, each stepped in a loop of its own. */
export const environmentsInLoops: Peer = {
  serve: served,
  async connect(load, port, count) {
    const players = await Promise.all(
      Array.from({ length: count }, () => oursEach.connect(load, port, 1)),
    );
    return {
      async play({ until, latencies }) {
        const turn = { inFlight: 1, until, latencies };
        const steps = await Promise.all(players.map((player) => player.play(turn)));
        return steps.reduce((sum, each) => sum + each, 0);
      },
      close: async () => {
        await Promise.all(players.map((player) => player.close()));
      },
    };
  },
};

async function join(load: Load, port: number): Promise<Environment> {
  const connection = await connect(`127.0.0.1:${port}`);
  const world = await connection.createWorld();
  const environment: Environment = await connection.join(world, joinOptions(load));
  await environment.reset();
  return environment;
}

async function leave(environment: Environment): Promise<void> {
  await environment.close();
  await environment.connection.close();
}
