// SPDX-License-Identifier: Apache-2.0
import { type Connection, connect } from "@dm-env-rpc/client";
import { counting, zeroCounters } from "./world.ts";

/** Counters of all agents together. */
export interface Counters {
  /** Agents that played. */
  agents: number;
  /** Steps that were sent, and those that were answered. */
  sent: number;
  answered: number;
  /** Responses that started a sequence, and those to an action. */
  firsts: number;
  taken: number;
  /** Responses whose observation differed from the agent's own count. */
  wrong: number;
  /** Longest wait for a response, in milliseconds. */
  longestMs: number;
  worlds: number;
}

/** The jobs of a process that plays. */
export type Job =
  | {
      readonly kind: "crowds";
      readonly url: string;
      /** Number of worlds, and of agents in each. */
      readonly worlds: number;
      readonly agents: number;
      readonly seconds: number;
    }
  | {
      readonly kind: "churn";
      readonly url: string;
      readonly worlds: number;
      readonly connections: number;
    };

/** The definition of the world that agents join with. */
const as = counting(zeroCounters());

/** Steps all agents concurrently for a while; then they leave. */
export async function crowds(
  job: Extract<Job, { kind: "crowds" }>,
  counters: Counters,
  onPlaying: () => void,
): Promise<void> {
  const names: string[] = [];
  {
    await using host = await connect(job.url);
    for (let i = 0; i < job.worlds; i++) {
      names.push(await host.createWorld({ settings: { agents: job.agents } }));
    }
  }
  const connections: Connection[] = [];
  for (let i = 0; i < job.worlds * job.agents; i += 50) {
    const batch = Math.min(50, job.worlds * job.agents - i);
    connections.push(...(await Promise.all(Array.from({ length: batch }, () => connect(job.url)))));
  }
  const end = { at: Number.POSITIVE_INFINITY };
  const playing = connections.map((connection, i) =>
    play(connection, names[Math.floor(i / job.agents)] ?? "", counters, end),
  );
  end.at = performance.now() + job.seconds * 1000;
  onPlaying();
  await Promise.all(playing);
  await using host = await connect(job.url);
  for (const name of names) {
    await host.destroyWorld(name);
  }
  counters.worlds += names.length;
}

async function play(
  connection: Connection,
  world: string,
  counters: Counters,
  end: { readonly at: number },
): Promise<void> {
  const environment = await connection.join(world, { as });
  counters.agents += 1;
  let mine = 0;
  while (performance.now() < end.at) {
    const sentAt = performance.now();
    counters.sent += 1;
    const step = await environment.step({ add: 1 });
    counters.answered += 1;
    counters.longestMs = Math.max(counters.longestMs, performance.now() - sentAt);
    if (step.first()) {
      counters.firsts += 1;
    } else {
      counters.taken += 1;
      mine += 1;
    }
    if (step.observation.mine !== mine) {
      counters.wrong += 1;
    }
  }
  await environment.close();
  await connection.close();
}

/** Creates, joins, steps, leaves and destroys worlds, one after the other on each connection. */
export async function churn(
  job: Extract<Job, { kind: "churn" }>,
  counters: Counters,
): Promise<void> {
  let left = job.worlds;
  const lives = Array.from({ length: job.connections }, async () => {
    await using connection = await connect(job.url);
    while (left > 0) {
      left -= 1;
      const world = await connection.createWorld();
      const environment = await connection.join(world, { as });
      const steps = await Promise.all([0, 1, 2].map(() => environment.step({ add: 1 })));
      counters.sent += 3;
      counters.answered += steps.length;
      counters.firsts += steps.filter((step) => step.first()).length;
      counters.taken += steps.filter((step) => !step.first()).length;
      if (steps.at(-1)?.observation.mine !== 2) {
        counters.wrong += 1;
      }
      await environment.close();
      await connection.destroyWorld(world);
      counters.agents += 1;
      counters.worlds += 1;
    }
  });
  await Promise.all(lives);
}
