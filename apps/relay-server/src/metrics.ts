// SPDX-License-Identifier: Apache-2.0
import type { Relay, RelayEvent } from "@dm-env-rpc/relay";
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";

/** Metrics of a relay. */
export interface Metrics {
  readonly registry: Registry;
  /** Counts an event. */
  note(event: RelayEvent): void;
  /** Reads gauges from a relay at each scrape. */
  watch(relay: Relay): void;
}

const prefix = "dm_env_rpc_relay_";

/** Creates the metrics of one process. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const events = new Counter({
    name: `${prefix}events_total`,
    help: "Events of programs, agents and connections, by kind",
    labelNames: ["kind"],
    registers,
  });
  return {
    registry,
    note: ({ kind }) => events.inc({ kind }),
    watch(relay) {
      new Gauge({
        name: `${prefix}programs`,
        help: "Programs that have a place, by whether they are connected",
        labelNames: ["connected"],
        registers,
        collect() {
          const programs = relay.programs();
          const connected = programs.filter(({ isConnected }) => isConnected).length;
          this.set({ connected: "true" }, connected);
          this.set({ connected: "false" }, programs.length - connected);
        },
      });
      new Gauge({
        name: `${prefix}streams`,
        help: "Open streams of agents, by program",
        labelNames: ["program"],
        registers,
        collect() {
          this.reset();
          for (const { name, streams } of relay.programs()) {
            this.set({ program: name }, streams);
          }
        },
      });
    },
  };
}
