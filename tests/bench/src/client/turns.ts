// SPDX-License-Identifier: Apache-2.0
import type { Load, Played } from "../loads/load.ts";
import type { Peer, Turn } from "../peers/peer.ts";
import { served } from "./served.ts";

/** An agent on a connection of its own, in a world of its own. */
export interface Agent {
  /** Sends the action of a tick; resolves with the time step. */
  step(tick: number): Promise<Played>;
  close(): Promise<void>;
}

type Join = (load: Load, port: number) => Promise<Agent>;

/** As many agents as steps are in flight. A round steps each agent once, and waits for all. */
export function inRounds(join: Join): Peer {
  return {
    serve: served,
    async connect(load, port, count) {
      const agents = await joinAll(join, load, port, count);
      let tick = 0;
      return {
        async play({ until, latencies }: Turn) {
          const before = tick;
          for (let now = performance.now(); now < until; ) {
            const steps = await Promise.all(agents.map((agent) => agent.step(tick)));
            tick += 1;
            for (const step of steps) {
              load.check(tick, step);
            }
            const then = now;
            now = performance.now();
            latencies.record((now - then) * 1000);
          }
          return (tick - before) * count;
        },
        close: () => closeAll(agents),
      };
    },
  };
}

/** As many agents, each in a loop of its own. */
export function inLoops(join: Join): Peer {
  return {
    serve: served,
    async connect(load, port, count) {
      const agents = await joinAll(join, load, port, count);
      const ticks = agents.map(() => 0);
      return {
        async play({ until, latencies }: Turn) {
          const loops = agents.map(async (agent, i) => {
            const before = ticks[i] ?? 0;
            let tick = before;
            for (let now = performance.now(); now < until; ) {
              const step = await agent.step(tick);
              tick += 1;
              load.check(tick, step);
              const then = now;
              now = performance.now();
              latencies.record((now - then) * 1000);
            }
            ticks[i] = tick;
            return tick - before;
          });
          return (await Promise.all(loops)).reduce((sum, steps) => sum + steps, 0);
        },
        close: () => closeAll(agents),
      };
    },
  };
}

function joinAll(join: Join, load: Load, port: number, count: number): Promise<Agent[]> {
  return Promise.all(Array.from({ length: count }, () => join(load, port)));
}

async function closeAll(agents: readonly Agent[]): Promise<void> {
  await Promise.all(agents.map((agent) => agent.close()));
}
