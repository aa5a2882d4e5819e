// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { createServer } from "node:http";
import { toError } from "@dm-env-rpc/transport/internal";
import type { Registry } from "prom-client";

/** Options of `serveMetrics`. */
export interface MetricsEndpointOptions {
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port to listen on; 0, the default, picks one. */
  readonly port?: number | undefined;
  /** Receives the error of a metric that could not be read; the scrape is answered with status 500. */
  readonly onError?: ((error: Error) => void) | undefined;
}

/** An endpoint that Prometheus scrapes. */
export interface MetricsEndpoint extends AsyncDisposable {
  /** URL of the metrics, such as `http://127.0.0.1:9090/metrics`. */
  readonly url: string;
  /** Closes the endpoint with its connections. */
  close(): Promise<void>;
}

/**
 * Serves the metrics of a registry at `/metrics`, in plain text, on a port of their own. Do not let
 * the internet reach it.
 *
 * @throws Error if the port is in use, or the address is not one of this machine.
 *
 * @example
 * const server = await serve({ worlds: [world] });
 * addServerMetrics(server, registry);
 * const endpoint = await serveMetrics(registry, { port: 9090 });
 */
export async function serveMetrics(
  registry: Registry,
  { host = "127.0.0.1", port = 0, onError }: MetricsEndpointOptions = {},
): Promise<MetricsEndpoint> {
  const server = createServer((request, response) => {
    if (request.method !== "GET" || request.url?.split("?")[0] !== "/metrics") {
      response.writeHead(404).end("metrics are at /metrics\n");
      return;
    }
    registry.metrics().then(
      (text) => response.writeHead(200, { "content-type": registry.contentType }).end(text),
      (error: unknown) => {
        onError?.(toError(error));
        response.writeHead(500).end("a metric could not be read\n");
      },
    );
  });
  server.listen(port, host);
  await once(server, "listening");
  const address = server.address();
  const bound = typeof address === "object" && address !== null ? address.port : port;
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= new Promise((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
    return closed;
  };
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${bound}/metrics`,
    close,
    [Symbol.asyncDispose]: close,
  };
}
