// SPDX-License-Identifier: Apache-2.0
/** Metrics of servers for Prometheus, by the package `prom-client`. */
export {
  type MetricsEndpoint,
  type MetricsEndpointOptions,
  serveMetrics,
} from "./serve-metrics.ts";
export { addServerMetrics } from "./server-metrics.ts";
