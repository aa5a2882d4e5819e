// SPDX-License-Identifier: Apache-2.0
import { remoteSlots, vectorize } from "@dm-env-rpc/client/vector";
import { type ChildOptions, startNode } from "../harness/child.ts";
import { histogram } from "../harness/histogram.ts";
import { type Summary, summarize } from "../harness/statistics.ts";
import type { Agent } from "../peers/peer.ts";
import { steppingAgent, type Vector } from "./peers.ts";
import { busy } from "./worlds.ts";

/** Numbers of server processes behind one vector. */
const sizes = [1, 2] as const;

const slots = 16;

/** A vector whose slots are shared by some server processes. */
export interface ServersRow {
  readonly servers: number;
  readonly stepsPerSecond: Summary;
  /** CPU microseconds of an environment step on all servers. */
  readonly serverCpuMicros: Summary;
}

/** Number and duration of the turns. */
export interface ServersEffort extends ChildOptions {
  readonly turns: number;
  readonly turnMs: number;
  readonly onProgress: (text: string) => void;
}

/** Measures a vector over one server process and one over two, in turns; a step takes about 1 ms of CPU. */
export async function measureServers(effort: ServersEffort): Promise<ServersRow[]> {
  const { turns, turnMs, onProgress } = effort;
  await using open = new AsyncDisposableStack();
  const servers = sizes.map((size) => startNode(effort, `busy-server-${size}`));
  for (const server of servers) {
    open.defer(() => server.close());
  }
  const ports = await Promise.all(
    servers.map(async (server) => await server.ask("serve", { peer: "batch-busy", load: "board" })),
  );
  const addresses = ports.map(({ port }) => `127.0.0.1:${port}`);
  const entrants = await Promise.all(
    sizes.map(async (size) => {
      const remote = remoteSlots(addresses.slice(0, size), { as: busy });
      const vector = await vectorize(slots, remote, { buffers: "reuse" });
      const agent = await steppingAgent(vector as Vector);
      open.defer(() => agent.close());
      return { size, agent, rates: [] as number[], cpu: [] as number[] };
    }),
  );
  const cpuMs = async (): Promise<number> => {
    const used = await Promise.all(servers.map((server) => server.ask("usage", {})));
    return used.reduce((sum, each) => sum + each.cpuMs, 0);
  };
  for (let turn = 0; turn <= turns; turn++) {
    onProgress(`servers behind one vector, turn ${turn} of ${turns}`);
    for (const { agent, rates, cpu } of turn % 2 === 0 ? entrants : [...entrants].reverse()) {
      const before = await cpuMs();
      const { steps, elapsedMs } = await timed(agent, turnMs);
      // The first turn warms up.
      if (turn > 0) {
        rates.push((steps * 1000) / elapsedMs);
        cpu.push((((await cpuMs()) - before) * 1000) / steps);
      }
    }
  }
  return entrants.map(({ size, rates, cpu }) => ({
    servers: size,
    stepsPerSecond: summarize(rates),
    serverCpuMicros: summarize(cpu),
  }));
}

async function timed(agent: Agent, turnMs: number) {
  const start = performance.now();
  const steps = await agent.play({
    inFlight: slots,
    until: start + turnMs,
    latencies: histogram(),
  });
  return { steps, elapsedMs: performance.now() - start };
}
