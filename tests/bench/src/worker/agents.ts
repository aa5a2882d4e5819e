// SPDX-License-Identifier: Apache-2.0
import { histogram } from "../harness/histogram.ts";
import { type LoadName, loadOf } from "../loads/load.ts";
import { peerOf } from "../peers/index.ts";
import type { Agent } from "../peers/peer.ts";
import type { Commands, PlayResult } from "./protocol.ts";

/** Groups of connections that play together. */
export interface Agents {
  connect(ask: Commands["connect"]["ask"]): Promise<void>;
  play(ask: Commands["play"]["ask"]): Promise<PlayResult>;
  close(group: string): Promise<void>;
}

/** Connections to open at a time. */
const atOnce = 64;

/** Creates an empty set of groups. */
export function createAgents(gcMs: () => number): Agents {
  const groups = new Map<string, Agent[]>();
  const latencies = histogram();
  return {
    async connect({ group, peer, load, port, connections, inFlight }) {
      const agents: Agent[] = [];
      groups.set(group, agents);
      const { connect } = await peerOf(peer);
      const open = () => connect(loadOf(load as LoadName), port, inFlight);
      while (agents.length < connections) {
        const length = Math.min(atOnce, connections - agents.length);
        agents.push(...(await Promise.all(Array.from({ length }, open))));
      }
    },

    async play({ group, inFlight, durationMs }) {
      const agents = groups.get(group) ?? [];
      latencies.clear();
      const cpu = process.cpuUsage();
      const gcBefore = gcMs();
      const start = performance.now();
      const turn = { inFlight, until: start + durationMs, latencies };
      const steps = await Promise.all(agents.map((agent) => agent.play(turn)));
      const elapsedMs = performance.now() - start;
      const { user, system } = process.cpuUsage(cpu);
      const measured = latencies.count > 0;
      return {
        steps: steps.reduce((sum, count) => sum + count, 0),
        elapsedMs,
        cpuMs: (user + system) / 1000,
        gcMs: gcMs() - gcBefore,
        p50Micros: measured ? latencies.quantile(0.5) : null,
        p99Micros: measured ? latencies.quantile(0.99) : null,
      };
    },

    async close(group) {
      const agents = groups.get(group) ?? [];
      groups.delete(group);
      await Promise.all(agents.map((agent) => agent.close()));
    },
  };
}
