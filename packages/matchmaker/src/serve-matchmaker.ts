// SPDX-License-Identifier: Apache-2.0
import type { ConnectRouter } from "@connectrpc/connect";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { isLoopback, type ListenOptions, type ListenTls, listen } from "@dm-env-rpc/transport";
import { readPageFiles } from "@dm-env-rpc/transport/internal/page-files";
import { createMatchmaker, type Matchmaker, type MatchmakerOptions } from "./matchmaker.ts";
import { settingsFrom } from "./model/settings.ts";
import { maxOpenCalls } from "./services/limits/admission.ts";

/** Options of `serveMatchmaker`. */
export interface ServeMatchmakerOptions extends MatchmakerOptions {
  /** Address to listen on. Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port to listen on; 0, the default, picks one. */
  readonly port?: number | undefined;
  /** Serves TLS instead of plain text. */
  readonly listenTls?: ListenTls | undefined;
  /**
   * Allows listening without TLS on an address that other machines can reach. Other machines can then read
   * the traffic, including tokens. Default false.
   */
  readonly allowInsecure?: boolean | undefined;
  /** Origins of pages that may call the matchmaker as servers or as clients. `*` allows all. Default: none. */
  readonly allowedOrigins?: readonly string[] | undefined;
  /**
   * Serves a page at `/` for operators. The page shows the tickets, servers, worlds and profiles live, and
   * can drain servers. Like the command line, the page calls the services with an operator's token. Default
   * false.
   */
  readonly page?: boolean | undefined;
  /** Adds further services to the port, such as health and reflection. */
  readonly routes?: ((router: ConnectRouter) => void) | undefined;
  /** Byte streams for methods of `routes`, such as those of `createHealthBoard` in `@dm-env-rpc/server`. */
  readonly byteStreams?: ListenOptions["byteStreams"] | undefined;
  /** Called with network errors that no call reports. */
  readonly onTransportError?: ((error: Error) => void) | undefined;
}

/** A matchmaker on the network. */
export interface MatchmakerServer extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Address, such as `http://127.0.0.1:8990`. */
  readonly url: string;
  readonly matchmaker: Matchmaker;
  /** Number of connections and calls that were refused or ended, by the name of the limit or the gRPC code. */
  readonly refusals: ReadonlyMap<string, number>;
  /** Refuses new calls immediately. Cuts off open calls after `graceMs` (default 1,000). Idempotent. */
  close(options?: { readonly graceMs?: number | undefined }): Promise<void>;
}

/** Time without progress after which an incomplete request is reset. */
const stalledRequestMs = 10_000;
/**
 * Interval of the pings to each connection. A connection that does not answer is closed, so that tickets
 * of absent agents are not matched.
 */
const pingIntervalMs = 10_000;
/** Time after which a connection without calls is closed. */
const idleConnectionMs = 60_000;

/** The files of the page, where `npm run build` puts them. */
const pageFolder = new URL("../dist/page/assets/", import.meta.url);

/**
 * Serves a matchmaker over gRPC and Connect on one port.
 *
 * @throws Error if the port is in use.
 * @throws Error if the host is not a loopback address, and neither `listenTls` nor `allowInsecure` is set.
 * @throws Error if the host is not a loopback address, and `authorize` is not set: every caller would be an operator.
 * @throws DmEnvRpcError, StoreError and RangeError as `createMatchmaker` does.
 *
 * @example
 * const matchmaker = await serveMatchmaker({
 *   port: 8990,
 *   store: await redisStore({ url: "redis://localhost:6379" }),
 * });
 */
export async function serveMatchmaker(
  options: ServeMatchmakerOptions = {},
): Promise<MatchmakerServer> {
  const { host = "127.0.0.1", port = 0, listenTls } = options;
  try {
    checkHost(host, options);
  } catch (error) {
    await options.store?.close();
    throw error;
  }
  const matchmaker = await createMatchmaker(options);
  const settings = settingsFrom(options.settings);
  const { maxWatches, maxCalls, reservedCalls } = settings;
  // Each call may have its own connection; the matchmaker limits the calls.
  const maxStreams = maxWatches + maxCalls + reservedCalls + maxOpenCalls;
  try {
    const listener = await listen({
      host,
      port,
      tls: listenTls,
      allowedOrigins: options.allowedOrigins,
      byteStreams: options.byteStreams,
      files: options.page === true ? await readPageFiles(pageFolder) : undefined,
      maxStreams,
      maxStreamsPerAddress: maxStreams, // `matchmaker.admit` limits the calls of each caller.
      maxConnections: maxStreams,
      maxConnectionsPerAddress: settings.maxConnectionsPerAddress,
      maxFloodsPerAddress: settings.maxFloodsPerAddress,
      listenBacklog: settings.listenBacklog,
      idleStreamMs: stalledRequestMs,
      idleConnectionMs,
      pingIntervalMs,
      maxRequestsPerSecond: 0, // The matchmaker limits the rate of each caller itself.
      onCall: matchmaker.admit,
      onStream: (stream) => {
        stream.countRefused?.();
        stream.abort(
          new DmEnvRpcError(
            "UNIMPLEMENTED",
            "this is a matchmaker; join the server that a ticket is assigned to",
          ),
        );
      },
      routes: (router) => {
        matchmaker.routes(router);
        options.routes?.(router);
      },
      onError: (error) => options.onTransportError?.(error),
    });
    const close = async ({ graceMs = 1_000 } = {}): Promise<void> => {
      // Watches of tickets end with the matchmaker, so the listener need not wait for them.
      await Promise.all([matchmaker.close(), listener.close({ graceMs })]);
    };
    return {
      host: listener.host,
      port: listener.port,
      url: listener.url,
      matchmaker,
      get refusals() {
        const all = new Map(matchmaker.refusals);
        for (const [limit, count] of listener.refusals) {
          all.set(limit, (all.get(limit) ?? 0) + count);
        }
        return all;
      },
      close,
      [Symbol.asyncDispose]: () => close(),
    };
  } catch (error) {
    await matchmaker.close();
    throw error;
  }
}

/** Refuses a host that other machines can reach, unless the traffic and the operators are protected. */
function checkHost(
  host: string,
  { allowInsecure = false, listenTls, authorize }: ServeMatchmakerOptions,
): void {
  if (isLoopback(host)) {
    return;
  }
  if (!allowInsecure && listenTls === undefined) {
    throw new Error(
      `host: expected a loopback address for a matchmaker without TLS, received "${host}"; set listenTls, or allowInsecure if others may read the traffic`,
    );
  }
  if (authorize === undefined) {
    throw new Error(
      `host: expected a loopback address for a matchmaker without authorize, received "${host}"; set authorize, because without it every caller is an operator`,
    );
  }
}
