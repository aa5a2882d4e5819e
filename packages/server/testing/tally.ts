// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, t } from "@dm-env-rpc/tensor-codec";
import { lockstep } from "../src/clocks/lockstep.ts";
import type { AgentId, SequenceState } from "../src/definition/agent.ts";
import type { Clock } from "../src/definition/clock.ts";
import { optional, withDefault } from "../src/definition/settings.ts";
import { defineWorld, type WorldDefinition } from "../src/definition/world.ts";

/** Event of a tally world. */
export type TallyEvent =
  | `create ${string}`
  | `join ${number}`
  | `leave ${number}`
  | `start ${string}`
  | `enter ${number}`
  | `exit ${number}`
  | `reset ${number}`
  | `tick ${string}`
  | "destroy";

/** Policies of the world under test. */
export type TallyOptions = Partial<
  Pick<
    WorldDefinition,
    | "onLeave"
    | "onDrop"
    | "perAgent"
    | "onReset"
    | "lateEntry"
    | "onDestroy"
    | "resetDeadlineMs"
    | "drainDeadlineMs"
  >
> & {
  readonly clock?: Clock | undefined;
  readonly log?: TallyEvent[] | undefined;
  /** The log of each world, as they are created. */
  readonly logs?: TallyEvent[][] | undefined;
};

/**
 * A world with predictable results: each agent adds to a shared total. A sequence is TERMINATED
 * after `length` ticks, or INTERRUPTED with `cut`; an agent that adds 100 is TERMINATED while the
 * others continue. The world refuses 366 while the total is odd.
 */
export function tally({
  log: all = [],
  logs = [],
  clock = lockstep(),
  ...policies
}: TallyOptions = {}) {
  return defineWorld({
    name: "tally",
    settings: {
      length: withDefault(t.int32({ min: 1, max: 1_000_000 }), 3),
      cut: withDefault(t.bool(), false),
      start: withDefault(t.int32(), 0),
      seed: optional(t.uint64()),
      min_agents: withDefault(t.int32(), 1),
      max_agents: withDefault(t.int32(), 8),
    },
    joinSettings: { name: withDefault(t.string(), "nobody"), width: withDefault(t.int32(), 2) },
    resetSettings: { width: optional(t.int32()) },
    resetWorldSettings: { start: optional(t.int32()), seed: optional(t.uint64()) },
    agents: ({ min_agents, max_agents }) => ({ min: min_agents, max: max_agents }),
    actions: { add: t.int32({ min: -1000, max: 1000 }), sleep: t.int32({ min: 1, max: 1000 }) },
    observations: ({ join }) => ({
      total: t.int32(),
      tick: t.int32(),
      sequence: t.int32(),
      row: t.int32([join.width ?? 2]),
      reward: t.float32(),
    }),
    clock,
    ...policies,
    create({ settings }) {
      let total = 0;
      let tick = 0;
      let sequence = 0;
      const widths = new Map<AgentId, number>();
      const rewards = new Map<AgentId, number>();
      const finished = new Set<AgentId>();
      const own: TallyEvent[] = [];
      logs.push(own);
      const log = {
        push(event: TallyEvent) {
          all.push(event);
          own.push(event);
        },
      };
      log.push(`create ${settings.length}`);
      return {
        join(agent, { width }) {
          log.push(`join ${agent}`);
          widths.set(agent, width);
        },
        leave: (agent) => {
          log.push(`leave ${agent}`);
        },
        start({ settings: current, agents }) {
          log.push(`start ${agents.join(",")}`);
          total = current.start;
          tick = 0;
          sequence += 1;
          rewards.clear();
          finished.clear();
        },
        enter(agent) {
          log.push(`enter ${agent}`);
          finished.delete(agent);
        },
        exit: (agent) => {
          log.push(`exit ${agent}`);
        },
        reset(agent, { width }) {
          log.push(`reset ${agent}`);
          if (width !== undefined) {
            widths.set(agent, width);
          }
        },
        validate(_agent, { add }) {
          if (add !== 366 || total % 2 === 0) {
            return;
          }
          throw new DmEnvRpcError("INVALID_ARGUMENT", `366 is not added to ${total}, which is odd`);
        },
        step(actions) {
          tick += 1;
          rewards.clear();
          for (const [agent, { add = 0 }] of actions) {
            total += add;
            rewards.set(agent, add);
            if (add === 100) {
              finished.add(agent);
            }
          }
          log.push(
            `tick ${[...actions].map(([agent, { add }]) => `${agent}:${add ?? "-"}`).join(" ")}`,
          );
        },
        status(agent): SequenceState {
          if (finished.has(agent)) {
            return "terminated";
          }
          if (tick < settings.length) {
            return "running";
          }
          return settings.cut ? "interrupted" : "terminated";
        },
        observe: {
          total: () => total,
          tick: () => tick,
          sequence: () => sequence,
          row: (agent) => new Int32Array(widths.get(agent) ?? 0).fill(agent),
          reward: (agent) => rewards.get(agent) ?? 0,
        },
        destroy: () => {
          log.push("destroy");
        },
      };
    },
  });
}
