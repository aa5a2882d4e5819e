// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type Connection, connect } from "@dm-env-rpc/client";
import { JoinWorldRequestSchema } from "@dm-env-rpc/protocol";
import {
  packFor,
  type SpecEntry,
  type SpecTable,
  type StepResponse,
  unpackSpecs,
} from "@dm-env-rpc/tensor-codec";
import type { Load, Played } from "../loads/load.ts";
import { moveAt, type Peer, type Turn } from "../peers/peer.ts";
import { served } from "./served.ts";

/** An agent that sends StepRequests and reads StepResponses itself. */
interface RawAgent {
  readonly connection: Connection;
  step(tick: number): Promise<Played>;
}

/** As many connections as steps are in flight, with no environments: StepRequests on all of them before the next. */
export const connectionsInRounds: Peer = {
  serve: served,
  async connect(load, port, count) {
    const agents = await Promise.all(Array.from({ length: count }, () => join(load, port)));
    let tick = 0;
    return {
      async play({ until, latencies }: Turn) {
        const before = tick;
        for (let now = performance.now(); now < until; ) {
          const steps = await Promise.all(agents.map((agent) => agent.step(tick)));
          tick += 1;
          for (const step of steps) load.check(tick, step);
          const then = now;
          now = performance.now();
          latencies.record((now - then) * 1000);
        }
        return (tick - before) * count;
      },
      close: () => leave(agents),
    };
  },
};

/** The same connections, each in a loop of its own. */
export const connectionsInLoops: Peer = {
  serve: served,
  async connect(load, port, count) {
    const agents = await Promise.all(Array.from({ length: count }, () => join(load, port)));
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
      close: () => leave(agents),
    };
  },
};

async function join(load: Load, port: number): Promise<RawAgent> {
  const connection = await connect(`127.0.0.1:${port}`);
  const worldName = await connection.createWorld();
  const value = create(JoinWorldRequestSchema, { worldName });
  const joined = await connection.send({ case: "joinWorld", value });
  const { actions, observations } = unpackSpecs(joined.value.specs);
  const names = Object.keys(load.world.observations).sort();
  const requestedObservations = names.map((name) => entryOf(observations, name).uid);
  const { uid, spec } = entryOf(actions, "move");
  const agent: RawAgent = {
    connection,
    async step(tick) {
      const tensor = packFor(moveAt(tick), spec, "move");
      const response = await connection.send({
        case: "step",
        value: { actions: [{ uid, tensor }], requestedObservations },
      });
      return played(response.value, observations);
    },
  };
  await agent.step(0);
  return agent;
}

/** What came, by name. */
function played({ observations }: StepResponse, table: SpecTable): Played {
  const step = { reward: 0, discount: 0, observation: {} as Record<string, unknown> };
  for (const { uid, tensor } of observations) {
    const name = table.byUid.get(uid)?.name ?? "";
    if (name === "reward" || name === "discount") step[name] = Number(tensor.data[0]);
    else step.observation[name] = tensor;
  }
  return step;
}

function entryOf(table: SpecTable, name: string): SpecEntry {
  const entry = table.byName.get(name);
  if (entry === undefined) throw new Error(`the world has no "${name}"`);
  return entry;
}

async function leave(agents: readonly RawAgent[]): Promise<void> {
  await Promise.all(agents.map(({ connection }) => connection.close()));
}
