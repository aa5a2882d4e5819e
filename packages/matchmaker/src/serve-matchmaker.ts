// SPDX-License-Identifier: Apache-2.0
import type { ConnectRouter } from "@connectrpc/connect";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { isLoopback, type ListenTls, listen } from "@dm-env-rpc/transport";
import { createMatchmaker, type Matchmaker, type MatchmakerOptions } from "./matchmaker.ts";
import { settingsFrom } from "./settings.ts";

/** Options of `serveMatchmaker`. */
export interface ServeMatchmakerOptions extends MatchmakerOptions {
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port to listen on; 0, the default, picks one. */
  readonly port?: number | undefined;
  /** Serves TLS instead of plain text. */
  readonly listenTls?: ListenTls | undefined;
  /** Listens beyond this machine without TLS: whoever reaches the port can do everything. Default false. */
  readonly allowInsecure?: boolean | undefined;
  /** Further services on the same port: health, reflection and what else there is. */
  readonly routes?: ((router: ConnectRouter) => void) | undefined;
  /** Told what goes wrong on the network and reaches nobody else. */
  readonly onTransportError?: ((error: Error) => void) | undefined;
}

/** A matchmaker on the network. */
export interface MatchmakerServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Such as `http://127.0.0.1:8990`. */
  readonly url: string;
  readonly matchmaker: Matchmaker;
  /** Stops: no new calls, then those that are open are cut off after `graceMs` (default 1,000). Idempotent. */
  close(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/** How long a request may stop in the middle: all of them are one message. */
const stalledRequestMs = 10_000;
/** How often each connection is asked whether it is there: the tickets of one that is not are not matched. */
const pingIntervalMs = 10_000;
/** How long a connection without calls is kept. */
const idleConnectionMs = 60_000;

/** The largest message of its services: a report of ten thousand worlds. */
const maxMessageBytes = 4 * 1024 * 1024;

/**
 * Serves a matchmaker over gRPC and Connect on one port.
 *
 * @throws Error when the port cannot be had, when the host is beyond this machine and there is neither TLS nor
 * `allowInsecure`, and as `createMatchmaker` does.
 */
export async function serveMatchmaker(
  options: ServeMatchmakerOptions = {},
): Promise<MatchmakerServer> {
  const { host = "127.0.0.1", port = 0, allowInsecure = false, listenTls } = options;
  if (!allowInsecure && listenTls === undefined && !isLoopback(host)) {
    throw new Error(
      `expected a loopback address to listen on in plain text, received "${host}"; give it a certificate, or allowInsecure if everybody who reaches the port may use it`,
    );
  }
  const matchmaker = await createMatchmaker(options);
  const { maxWatches, maxCalls, reservedCalls, maxConnectionsPerAddress } = settingsFrom(
    options.settings,
  );
  // Each call may have a connection of its own; what the calls are is the matchmaker's to limit.
  const maxStreams = maxWatches + maxCalls + reservedCalls;
  try {
    const listener = await listen({
      host,
      port,
      tls: listenTls,
      maxMessageBytes,
      maxStreams,
      maxConnections: maxStreams,
      maxConnectionsPerAddress,
      idleStreamMs: stalledRequestMs,
      idleConnectionMs,
      pingIntervalMs,
      onCall: matchmaker.admit,
      onStream: (stream) =>
        stream.abort(
          new DmEnvRpcError(
            "UNIMPLEMENTED",
            "this is a matchmaker; join the server that a ticket is assigned to",
          ),
        ),
      routes: (router) => {
        matchmaker.routes(router);
        options.routes?.(router);
      },
      onError: (error) => options.onTransportError?.(error),
    });
    const close = async ({ graceMs = 1_000 } = {}): Promise<void> => {
      // Watches end with the matchmaker, so that the listener need not wait for them.
      await Promise.all([matchmaker.close(), listener.close({ graceMs })]);
    };
    return {
      host: listener.host,
      port: listener.port,
      url: listener.url,
      matchmaker,
      close,
      [Symbol.asyncDispose]: () => close(),
    };
  } catch (error) {
    await matchmaker.close();
    throw error;
  }
}
