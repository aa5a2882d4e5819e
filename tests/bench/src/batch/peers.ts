// SPDX-License-Identifier: Apache-2.0
import { connect, type VectorEnvironment } from "@dm-env-rpc/client";
import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
import { serve, type WorldDefinition } from "@dm-env-rpc/server";
import type { Agent, Peer, Turn } from "../peers/peer.ts";
import { busy, cartPole, cartPoles, frames, pixels } from "./worlds.ts";

/** As many slots as steps are in flight, on one stream. */
export const batchSlots: Peer = batched(cartPole);

/** The same environments, simulated in arrays. */
export const batchArrays: Peer = batched(cartPoles);

/** The same, with large observations. */
export const batchFrames: Peer = batched(frames);

/** The same, with observations of 1 kB. */
export const batchPixels: Peer = batched(pixels);

/** The same, with steps that take about 1 ms of CPU. */
export const batchBusy: Peer = batched(busy);

/** The same slots on a stream each. */
export const batchStreams: Peer = {
  serve: () => served(cartPole),
  async connect(_load, port, count) {
    const slots = remoteSlots(`127.0.0.1:${port}`, { as: cartPole });
    const vector = await vectorize(
      Array.from({ length: count }, () => slots),
      { buffers: "reuse", batch: false },
    );
    return steppingAgent(vector as Vector);
  },
};

/** A vector whose environments have the action `push`. */
export type Vector = VectorEnvironment<{ push?: number | Int32Array }, unknown, unknown>;

function batched(world: WorldDefinition): Peer {
  return {
    serve: () => served(world),
    async connect(_load, port, count) {
      const connection = await connect(`127.0.0.1:${port}`);
      const name = await connection.createWorld();
      const { actions, observations } = world;
      const as = { actions: actions as never, observations: observations as never };
      const vector = await connection.join(name, { as, batch: count, buffers: "reuse" });
      return steppingAgent(vector as Vector);
    },
  };
}

async function served(world: WorldDefinition) {
  const server = await serve({
    worlds: [world],
    limits: { maxWorlds: 10_000, maxElements: 2 ** 30 },
  });
  return { port: server.port, close: () => server.close() };
}

/** Steps a vector; each slot counts as one step. */
export async function steppingAgent(vector: Vector): Promise<Agent> {
  const { size } = vector;
  const push = new Int32Array(size);
  let tick = 0;
  await vector.reset();
  return {
    async play({ until, latencies }: Turn) {
      const before = tick;
      for (let now = performance.now(); now < until; ) {
        tick += 1;
        for (let slot = 0; slot < size; slot++) {
          push[slot] = (slot + tick) & 1;
        }
        const { reward } = await vector.step({ push });
        if (reward.length !== size) {
          throw new Error(`expected ${size} rewards, received ${reward.length}`);
        }
        const then = now;
        now = performance.now();
        latencies.record((now - then) * 1000);
      }
      return (tick - before) * size;
    },
    close: () => vector.close(),
  };
}
