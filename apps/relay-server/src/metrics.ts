// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createServer } from "node:http";
import type { Relay, RelayEvent } from "@dm-env-rpc/relay";
import { Counter, collectDefaultMetrics, Gauge, Registry } from "prom-client";

/** Metrics that Prometheus can scrape. */
export interface Metrics {
  /** Counts an event. */
  note(event: RelayEvent): void;
  /** Reads gauges from a relay at each scrape. */
  watch(relay: Relay): void;
  /** Serves `/metrics`; resolves with its URL and a function that closes it. */
  serve(host: string, port: number): Promise<{ readonly url: string; close(): Promise<void> }>;
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
    async serve(host, port) {
      const server = createServer((request, response) => {
        if (request.method !== "GET" || request.url?.split("?")[0] !== "/metrics") {
          response.writeHead(404).end("metrics are at /metrics\n");
          return;
        }
        registry.metrics().then(
          (text) => response.writeHead(200, { "content-type": registry.contentType }).end(text),
          () => response.writeHead(500).end(),
        );
      });
      server.listen(port, host);
      await once(server, "listening");
      const address = server.address();
      const bound = typeof address === "object" && address !== null ? address.port : port;
      return {
        url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}/metrics`,
        async close() {
          server.close();
          server.closeAllConnections();
          await once(server, "close");
        },
      };
    },
  };
}
