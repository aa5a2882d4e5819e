// SPDX-License-Identifier: Apache-2.0
import {
  type Clock,
  defineWorld,
  lockstep,
  optional,
  property,
  type WorldDefinition,
  withDefault,
} from "@dm-env-rpc/server";
import { t } from "@dm-env-rpc/tensor-codec";
import type { ConformanceConfig } from "../src/config.ts";

/** Policies of a meadow. */
export type MeadowPolicies = Pick<WorldDefinition, "onLeave" | "onDestroy" | "onReset">;

/** Makes a world with everything that checks need: bounds, shapes, several agents, sequences of any length. */
export const meadow = (clock: Clock = lockstep(), policies: MeadowPolicies = {}) =>
  defineWorld({
    ...policies,
    clock,
    name: "meadow",
    settings: {
      length: t.int32({ min: 1, max: 1_000_000 }),
      max_agents: withDefault(t.int32(), 8),
      min_agents: withDefault(t.int32(), 1),
    },
    joinSettings: { name: withDefault(t.string(), "unnamed") },
    resetWorldSettings: { seed: optional(t.uint64()) },
    agents: ({ min_agents, max_agents }) => ({ min: min_agents, max: max_agents }),
    actions: {
      walk: t.int8({ min: -1, max: 1 }),
      aim: t.float32([2, 2], { min: -1, max: 1 }),
      say: t.string(),
      sleep: t.int32({ min: 1, max: 9 }),
      path: t.int32([-1]),
      note: t.proto(),
    },
    observations: {
      tick: t.int32({ min: 0, max: 1_000_000 }),
      view: t.uint8([3, 3]),
      names: t.string([2]),
      reward: t.float32(),
    },
    create({ settings }) {
      let tick = 0;
      let sign = "keep off";
      return {
        start() {
          tick = 0;
        },
        step() {
          tick += 1;
        },
        status: () => (tick < settings.length ? "running" : "terminated"),
        observe: {
          tick: () => tick,
          view: () => new Uint8Array(9),
          names: () => ["a", "b"],
          reward: () => 1,
        },
        properties: {
          sign: property(t.string(), {
            read: () => sign,
            write: (text) => {
              sign = text;
            },
          }),
        },
      };
    },
  });

/** The config that describes a meadow. */
export const meadowConfig: ConformanceConfig = {
  create: { length: 1_000_000 },
  agents: 8,
  required: { create: ["length"] },
  refused: { create: { length: 0 }, join: { name: 3 } },
  fullWorld: { create: { length: 1_000_000, max_agents: 2 }, count: 2 },
  minAgents: { create: { length: 1_000_000, min_agents: 3 }, count: 3 },
  shortSequence: { create: { length: 4 }, count: 4 },
  clock: "lockstep",
  onLeave: "continue",
  onDestroy: "refuse",
  onReset: "respawn",
  properties: "both",
};
