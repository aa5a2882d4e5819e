// SPDX-License-Identifier: Apache-2.0
import { histogram } from "../harness/histogram.ts";
import { type LoadName, loadOf } from "../loads/load.ts";
import { peerOf } from "../peers/index.ts";
import type { Player } from "../peers/peer.ts";
import type { Commands, PlayResult } from "./protocol.ts";

/** Groups of connections that play together. */
export interface Players {
  connect(ask: Commands["connect"]["ask"]): Promise<void>;
  play(ask: Commands["play"]["ask"]): Promise<PlayResult>;
  close(group: string): Promise<void>;
}

/** How many connections are made at a time. */
const atOnce = 64;

/** Makes an empty set of groups. */
export function createPlayers(gcMs: () => number): Players {
  const groups = new Map<string, Player[]>();
  const latencies = histogram();
  return {
    async connect({ group, peer, load, port, connections, inFlight }) {
      const players: Player[] = [];
      groups.set(group, players);
      const { connect } = await peerOf(peer);
      const open = () => connect(loadOf(load as LoadName), port, inFlight);
      while (players.length < connections) {
        const length = Math.min(atOnce, connections - players.length);
        players.push(...(await Promise.all(Array.from({ length }, open))));
      }
    },

    async play({ group, inFlight, durationMs }) {
      const players = groups.get(group) ?? [];
      latencies.clear();
      const cpu = process.cpuUsage();
      const gcBefore = gcMs();
      const start = performance.now();
      const turn = { inFlight, until: start + durationMs, latencies };
      const steps = await Promise.all(players.map((player) => player.play(turn)));
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
      const players = groups.get(group) ?? [];
      groups.delete(group);
      await Promise.all(players.map((player) => player.close()));
    },
  };
}
