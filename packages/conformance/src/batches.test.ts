// SPDX-License-Identifier: Apache-2.0
import {
  defineEnvironment,
  defineWorld,
  serve,
  type WorldDefinition,
  withDefault,
} from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import type { ConformanceConfig } from "./config.ts";
import { describeConformance } from "./vitest.ts";

/** Counts its steps up to the length of the sequence. Each sequence draws a number, which depends on the seed. */
const counter = defineEnvironment({
  name: "counter",
  settings: { length: withDefault(t.int32({ min: 1 }), 1_000) },
  actions: { add: t.int32({ min: 0, max: 10 }) },
  observations: { drawn: t.int32(), place: { row: t.float32([2]), open: t.bool() } },
  agents: { max: 100 },
  create({ settings, random }) {
    let steps = 0;
    let drawn = 0;
    const observe = () => ({ drawn, place: { row: [steps, 0.5], open: true } });
    return {
      reset() {
        steps = 0;
        drawn = random.integer(0, 1_000_000);
        return observe();
      },
      step() {
        steps += 1;
        const state = steps === settings.length ? "terminated" : "running";
        return { observation: observe(), reward: 1, state };
      },
    };
  },
});

/** Counts ticks, which all agents of the world observe. */
const clock = defineWorld({
  name: "clock",
  settings: { length: withDefault(t.int32({ min: 1 }), 1_000) },
  actions: {},
  observations: { tick: t.int32(), hands: t.float32([2]) },
  agents: { max: 8 },
  create({ settings }) {
    let tick = 0;
    return {
      start() {
        tick = 0;
      },
      step() {
        tick += 1;
      },
      status: () => (tick === settings.length ? "terminated" : "running"),
      observe: { tick: () => tick, hands: () => [tick, 0] },
    };
  },
});

function describeServed(name: string, world: WorldDefinition, config: ConformanceConfig): void {
  describeConformance({
    name,
    config: { shortSequence: { create: { length: 4 }, count: 4 }, ...config },
    start: async () => {
      const server = await serve({ worlds: [world] });
      return { address: `${server.host}:${server.port}`, close: () => server.close() };
    },
  });
}

describeServed("environments that are joined as a batch", counter, {
  batches: true,
});
describeServed("a world that is joined with several seats", clock, {
  seats: true,
  agents: 8,
  clock: "lockstep",
});
