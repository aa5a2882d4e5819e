// SPDX-License-Identifier: Apache-2.0
import { type Connection, connect, type Environment, type JoinOptions } from "@dm-env-rpc/client";
import { createEnvironmentServer, serve } from "@dm-env-rpc/server";
import { memoryStreamPair } from "@dm-env-rpc/transport";
import type { Load } from "../loads/load.ts";
import { inStep, lockStep, overlapping, stepsInBatches } from "./our-turns.ts";
import type { Agent, Peer, Turn } from "./peer.ts";

/** More worlds than a server allows by default: each connection creates its own. */
const limits = { maxWorlds: 10_000 };

type Play = (env: Environment, load: Load, turn: Turn, tick: number) => Promise<number>;

/** The product: `serve`, a world on the clock `freeRunning`, and `Environment`; `stepMany` with several steps in flight. */
export const ours: Peer = networked(stepsInBatches);

/** The same over WebSocket. */
export const oursWebSocket: Peer = oursAt((port) => `ws://127.0.0.1:${port}`);

/** The same with an agent that reuses the memory of its observations at each step. */
export const oursReusing: Peer = networked(stepsInBatches, "reuse");

/** The same with several steps in flight and a promise for each. */
export const oursEach: Peer = networked(overlapping);

/** The same world and client in one process, without a network. */
export const inProcess: Peer = {
  async connect(load, _port, inFlight) {
    const server = createEnvironmentServer({ worlds: [load.world] });
    const [client, accepted] = memoryStreamPair();
    server.accept(accepted);
    const options = { maxInFlight: inFlight };
    return agent(load, await connect({ stream: client }, options), stepsInBatches, 0);
  },
};

/** The product under another address, which the server's port determines. */
export function oursAt(addressOf: (port: number) => string): Peer {
  return networked(stepsInBatches, "view", addressOf);
}

function networked(
  pipelined: Play,
  tensors: JoinOptions["tensors"] = "view",
  addressOf = (port: number): string => `127.0.0.1:${port}`,
): Peer {
  return {
    async serve(load) {
      const server = await serve({ worlds: [load.world], limits });
      return { port: server.port, close: () => server.close() };
    },
    async connect(load, port, inFlight) {
      const options = { maxInFlight: inFlight };
      return agent(load, await connect(addressOf(port), options), pipelined, port, tensors);
    },
  };
}

/** Worlds that are shared, by the port of their server. */
const sharedWorlds = new Map<number, Promise<string>>();

function created(load: Load, connection: Connection, port: number): Promise<string> {
  if (load.shared !== true) {
    return connection.createWorld();
  }
  const world = sharedWorlds.get(port) ?? connection.createWorld();
  sharedWorlds.set(port, world);
  return world;
}

async function agent(
  load: Load,
  connection: Connection,
  pipelined: Play,
  port: number,
  tensors: JoinOptions["tensors"] = "view",
): Promise<Agent> {
  const world = await created(load, connection, port);
  const { actions, observations } = load.world;
  const env: Environment = await connection.join(world, {
    as: { actions: actions as never, observations: observations as never },
    tensors,
    destroyOnClose: load.shared !== true,
  });
  await env.reset();
  let tick = 0;
  return {
    async play(turn) {
      const play = load.shared ? inStep : turn.inFlight === 1 ? lockStep : pipelined;
      const steps = await play(env, load, turn, tick);
      tick += steps;
      return steps;
    },
    async close() {
      await env.close();
      await connection.close();
    },
  };
}
