// SPDX-License-Identifier: Apache-2.0
import type { MatchmakerEvent, MatchmakerServer } from "@dm-env-rpc/matchmaker";
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from "prom-client";

/** Metrics of a matchmaker. */
export interface Metrics {
  readonly registry: Registry;
  /** Counts an event. */
  note(event: MatchmakerEvent): void;
  /** Reads gauges and counts of refusals from a matchmaker at each scrape. */
  watch(server: MatchmakerServer): void;
}

const prefix = "dm_env_rpc_matchmaker_";

/** Creates the metrics of one process. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  const registers = [registry];
  collectDefaultMetrics({ register: registry });
  const matches = new Counter({
    name: `${prefix}matches_total`,
    help: "Matches that were made",
    labelNames: ["profile"],
    registers,
  });
  const assignments = new Counter({
    name: `${prefix}assignments_total`,
    help: "Tickets that were assigned",
    labelNames: ["profile"],
    registers,
  });
  const waits = new Histogram({
    name: `${prefix}ticket_wait_seconds`,
    help: "Time from the creation of a ticket to its assignment",
    labelNames: ["profile"],
    buckets: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300],
    registers,
  });
  const ticks = new Histogram({
    name: `${prefix}tick_seconds`,
    help: "Duration of a tick of the director",
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5],
    registers,
  });
  const ended = new Counter({
    name: `${prefix}tickets_ended_total`,
    help: "Tickets that have ended, by state",
    labelNames: ["state"],
    registers,
  });
  const worlds = new Counter({
    name: `${prefix}world_calls_total`,
    help: "Calls to environment servers, by outcome",
    labelNames: ["what", "outcome"],
    registers,
  });
  const allocations = new Counter({
    name: `${prefix}allocations_total`,
    help: "Allocations of servers at their orchestrator, by outcome",
    labelNames: ["outcome"],
    registers,
  });
  const faults = new Counter({
    name: `${prefix}faults_total`,
    help: "Faults, by kind of event",
    labelNames: ["kind"],
    registers,
  });
  return {
    registry,
    note(event) {
      switch (event.kind) {
        case "matched":
          matches.inc({ profile: event.profile });
          break;
        case "assigned":
          assignments.inc({ profile: event.profile }, event.tickets);
          for (const ms of event.waitedMs) {
            waits.observe({ profile: event.profile }, ms / 1_000);
          }
          break;
        case "ticked":
          ticks.observe(event.tookMs / 1_000);
          break;
        case "ticket-ended":
          ended.inc({ state: event.state });
          break;
        case "world-created":
        case "world-reset":
        case "world-destroyed":
          worlds.inc({ what: event.kind.slice("world-".length), outcome: "done" });
          break;
        case "world-failed":
          worlds.inc({ what: event.what, outcome: "failed" });
          break;
        case "server-allocated":
        case "allocation-failed":
          allocations.inc({ outcome: event.kind === "server-allocated" ? "done" : "failed" });
          break;
        case "bad-proposal":
        case "store-failed":
        case "store-lost":
        case "step-failed":
        case "authorize-failed":
        case "call-failed":
        case "server-lost":
          faults.inc({ kind: event.kind });
          break;
        default:
          break;
      }
    },
    watch(server) {
      const { matchmaker } = server;
      new Counter({
        name: `${prefix}refused_total`,
        help: "Connections and calls that were refused, by limit or code",
        labelNames: ["reason"],
        registers,
        collect() {
          this.reset();
          for (const [reason, count] of server.refusals) {
            this.inc({ reason }, count);
          }
        },
      });
      new Gauge({
        name: `${prefix}leading`,
        help: "1 if this matchmaker leads",
        registers,
        collect() {
          this.set(matchmaker.isLeading ? 1 : 0);
        },
      });
      new Gauge({
        name: `${prefix}ready`,
        help: "1 while the store answers",
        registers,
        collect() {
          this.set(matchmaker.isReady ? 1 : 0);
        },
      });
      new Gauge({
        name: `${prefix}tickets`,
        help: "Number of tickets, by state",
        labelNames: ["state"],
        registers,
        // One count for four gauges: it reads every ticket. At a scrape, the registry collects the gauges in the order of
        // their registration, so the other three have their values in time.
        collect() {
          const counts = matchmaker.counts();
          for (const [state, count] of Object.entries(counts.tickets)) {
            this.set({ state }, count);
          }
          for (const { what, gauge } of sizes) {
            gauge.set(counts[what]);
          }
        },
      });
      const sizes = (["servers", "worlds", "matches"] as const).map((what) => ({
        what,
        gauge: new Gauge({ name: `${prefix}${what}`, help: `Number of ${what}`, registers }),
      }));
    },
  };
}
