// SPDX-License-Identifier: Apache-2.0
import { Counter, Gauge, type Registry } from "prom-client";
import type { Server } from "../host/serve.ts";
import type { ServerCounts, WorldTypeCounts } from "../host/server-counts.ts";

const prefix = "dm_env_rpc_server_";

/** A count with its metric. */
interface Metric<Name extends string> {
  readonly count: Name;
  readonly name: string;
  readonly help: string;
}

const gauges: readonly Metric<"connections" | "streams" | "bufferedBytes">[] = [
  { count: "connections", name: "connections", help: "Open connections" },
  { count: "streams", name: "streams", help: "Open Process streams" },
  {
    count: "bufferedBytes",
    name: "buffered_bytes",
    help: "Undelivered bytes of all streams and calls (limit maxBufferedBytes)",
  },
];

const gaugesByType: readonly Metric<"worlds" | "agents">[] = [
  { count: "worlds", name: "worlds", help: "Worlds, by type" },
  { count: "agents", name: "agents", help: "Agents in worlds, by type of world" },
];

const countersByType: readonly Metric<Exclude<keyof WorldTypeCounts, "type" | "tickLagMs">>[] = [
  { count: "created", name: "worlds_created_total", help: "Worlds that were created" },
  { count: "failed", name: "worlds_failed_total", help: "Worlds whose code failed" },
  { count: "joins", name: "joins_total", help: "Agents that have joined a world" },
  { count: "sequences", name: "sequences_total", help: "Sequences that have begun" },
  { count: "ticks", name: "ticks_total", help: "Ticks of worlds" },
  { count: "steps", name: "steps_total", help: "Steps of agents that worlds accepted" },
  {
    count: "missedDeadlines",
    name: "deadlines_missed_total",
    help: "Steps that did not arrive before their clock's deadline",
  },
  {
    count: "missedTicks",
    name: "ticks_missed_total",
    help: "Ticks that real-time worlds skipped because the process was too slow",
  },
];

/**
 * Adds the metrics of a server to a registry of prom-client: `dm_env_rpc_server_*`, which are read
 * from `server.counts()` at each scrape. A registry can have the metrics of one server.
 *
 * @throws Error if the registry already has metrics with these names.
 */
export function addServerMetrics(server: Pick<Server, "counts">, registry: Registry): void {
  const registers = [registry];
  let counts: ServerCounts | undefined;
  /** The metrics of a scrape are collected in one turn of the event loop, and share the counts. */
  const read = (): ServerCounts => {
    if (counts === undefined) {
      counts = server.counts();
      queueMicrotask(() => {
        counts = undefined;
      });
    }
    return counts;
  };
  for (const { count, name, help } of gauges) {
    new Gauge({
      name: prefix + name,
      help,
      registers,
      collect() {
        this.set(read()[count]);
      },
    });
  }
  for (const { count, name, help } of gaugesByType) {
    new Gauge({
      name: prefix + name,
      help,
      labelNames: ["type"],
      registers,
      collect() {
        for (const { type, [count]: value } of read().types) {
          this.set({ type }, value);
        }
      },
    });
  }
  const addCounter = (
    name: string,
    help: string,
    label: string,
    totals: () => Iterable<readonly [value: string, total: number]>,
  ): void => {
    new Counter({
      name: prefix + name,
      help,
      labelNames: [label],
      registers,
      collect() {
        this.reset();
        for (const [value, total] of totals()) {
          this.inc({ [label]: value }, total);
        }
      },
    });
  };
  for (const { count, name, help } of countersByType) {
    addCounter(name, help, "type", () =>
      read().types.map(({ type, [count]: total }) => [type, total]),
    );
  }
  addCounter(
    "tick_lag_seconds_total",
    "Sum of the times by which ticks of real-time worlds were late; divided by ticks_total, the mean",
    "type",
    () => read().types.map(({ type, tickLagMs }) => [type, tickLagMs / 1_000]),
  );
  addCounter(
    "refused_total",
    "Connections, streams, calls and requests that a limit refused or ended",
    "limit",
    () => read().refusals,
  );
}
