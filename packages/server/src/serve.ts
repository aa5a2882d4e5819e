// SPDX-License-Identifier: Apache-2.0
import { isLoopback, type Listener, listen } from "@dm-env-rpc/transport";
import { createEnvironmentServer, type EnvironmentServerOptions } from "./environment-server.ts";

/** Options of `serve`. */
export interface ServeOptions extends EnvironmentServerOptions {
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string;
  /** Port to listen on; 0, the default, picks one. */
  readonly port?: number;
  /** Listens beyond this machine without TLS: whoever reaches the port can do everything. Default false. */
  readonly allowInsecure?: boolean;
}

/** An environment server on the network. */
export interface Server extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Such as `http://127.0.0.1:8980`. */
  readonly url: string;
  worldNames(): readonly string[];
  readonly sessionCount: number;
  /**
   * Stops: no new streams, then after `graceMs` (default 0) the ones that are
   * left are cut off.
   */
  close(options?: { readonly graceMs?: number }): Promise<void>;
}

/**
 * Serves worlds over gRPC and Connect on one port.
 *
 * @throws Error when the port cannot be had, when a premade world cannot be made, or
 * when the host is beyond this machine and nobody said `allowInsecure`.
 */
export async function serve(options: ServeOptions): Promise<Server> {
  const { host = "127.0.0.1", port = 0, allowInsecure = false, onEvent } = options;
  if (!allowInsecure && !isLoopback(host)) {
    throw new Error(
      `expected a loopback address to listen on in plain text, received "${host}"; ` +
        "give allowInsecure: true if everybody who reaches the port may use it",
    );
  }
  const environments = createEnvironmentServer(options);
  await environments.ready;
  const listener: Listener = await listen({
    host,
    port,
    onStream: (stream) => environments.accept(stream),
    onError: (error) => onEvent?.({ kind: "transport-error", error }),
  });
  const close = async ({ graceMs = 0 } = {}): Promise<void> => {
    await listener.close({ graceMs });
    await environments.close();
  };
  return {
    host: listener.host,
    port: listener.port,
    url: listener.url,
    worldNames: () => environments.worldNames(),
    get sessionCount() {
      return environments.sessionCount;
    },
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}
