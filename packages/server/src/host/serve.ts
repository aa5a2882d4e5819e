// SPDX-License-Identifier: Apache-2.0
import type { DescFile } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import { Environment } from "@dm-env-rpc/protocol";
import { Health } from "@dm-env-rpc/protocol/health";
import { file_dm_env_rpc_v1_extensions_properties as propertiesFile } from "@dm-env-rpc/protocol/properties";
import { SpectatorService } from "@dm-env-rpc/protocol/spectator";
import { createArrivingRequestCodec, createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";
import { isLoopback, type Listener, type ListenTls, listen } from "@dm-env-rpc/transport";
import { pageFiles } from "../page/page-files.ts";
import { jsonFormat } from "../spectating/json-format.ts";
import {
  type CloseOptions,
  createEnvironmentServer,
  type EnvironmentServer,
  type EnvironmentServerOptions,
} from "./environment-server.ts";
import { createEmit } from "./events.ts";
import { createHealthBoard } from "./health.ts";
import { limitsFrom } from "./limits.ts";
import { addReflection, maxQuestionBytes } from "./reflection.ts";
import type { ServedWorld } from "./served-worlds.ts";
import type { ServerCounts } from "./server-counts.ts";

/** Options of `serve`. */
export interface ServeOptions extends EnvironmentServerOptions {
  /** Address to listen on, or `unix:/path` for a Unix domain socket. Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port to listen on; 0, the default, picks one. Ignored for a Unix domain socket. */
  readonly port?: number | undefined;
  /**
   * Serves TLS, and with `clientCertificates` requests client certificates (mTLS). Default: plain
   * text.
   */
  readonly tls?: ListenTls | undefined;
  /** Allows plain text beyond this machine, which others on the network can read. Default false. */
  readonly allowInsecure?: boolean | undefined;
  /**
   * Origins of the web pages that may use this server, such as `https://play.example.org`; `*`
   * allows all. Default: only pages of the server's own origin. Clients other than pages are not
   * affected.
   */
  readonly allowedOrigins?: readonly string[] | undefined;
  /**
   * Serves a page at `/` that shows the worlds live and lets people play them. Like any page, it
   * needs the role `spectator` to watch and `agent` to play. Default false.
   */
  readonly page?: boolean | undefined;
  /**
   * Adds further services to the port, for Connect, gRPC and gRPC-Web clients. `authorize` does not
   * apply to their calls.
   */
  readonly routes?: ((router: ConnectRouter) => void) | undefined;
  /** Files with the messages of extensions and PROTO tensors, for reflection. */
  readonly descriptors?: readonly DescFile[] | undefined;
}

/** An environment server on the network. */
export interface Server extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** URL of the server, such as `http://127.0.0.1:8980` or `unix:/path`. */
  readonly url: string;
  /** Names of the current worlds. */
  worldNames(): readonly string[];
  /** The current worlds and their agents. */
  worlds(): readonly ServedWorld[];
  readonly sessionCount: number;
  /** Returns counts since the start, for metrics; takes time in proportion to the number of worlds. */
  counts(): ServerCounts;
  /**
   * Closes the server in steps. Health reports NOT_SERVING, and new streams are refused; agents
   * receive their ends and streams are ended, as in `EnvironmentServer.close`; then the port is
   * closed. Anything still open `graceMs` (default 0) after the call is cut off.
   *
   * Later calls return the same promise and may only shorten the grace period.
   */
  close(options?: CloseOptions): Promise<void>;
}

/**
 * Serves worlds over gRPC, WebSocket, gRPC-Web and Connect on one port, with health
 * (grpc.health.v1, overall and for each kind of world) and reflection.
 *
 * @throws DmEnvRpcError if the port is in use, a certificate cannot be used, or a premade world
 *   cannot be created.
 * @throws RangeError if a limit or an allowed origin is malformed.
 * @throws Error naming the mistake in a definition, or if the server would serve plain text beyond
 * this machine without `allowInsecure`.
 *
 * @example
 * const server = await serve({ worlds: [world], port: 8980 });
 * console.log(`listening on ${server.url}`);
 * process.once("SIGTERM", () => server.close({ graceMs: 5_000 }));
 */
export async function serve(options: ServeOptions): Promise<Server> {
  const { host = "127.0.0.1", port = 0, allowInsecure = false, tls } = options;
  if (tls === undefined && !allowInsecure && !isLoopback(host)) {
    throw new Error(
      `expected a loopback address to listen on in plain text, received "${host}"; ` +
        "give tls, or allowInsecure: true if the network can be trusted",
    );
  }
  const limits = limitsFrom(options.limits);
  const emit = createEmit(options.onEvent);
  const health = createHealthBoard([
    Environment.typeName,
    ...options.worlds.map(({ name }) => name),
  ]);
  const environments = createEnvironmentServer(options);
  let listener: Listener;
  try {
    await environments.ready;
    const files = options.page === true ? await pageFiles() : undefined;
    listener = await listen({
      ...limits,
      host,
      port,
      tls,
      allowedOrigins: options.allowedOrigins,
      byteStreams: new Map([...environments.spectators.byteStreams, ...health.byteStreams]),
      jsonStreams: environments.spectators.streamsIn(jsonFormat),
      files,
      // Borrowed scalars are safe: worlds receive their values, and queued steps are copied.
      codecs: {
        request: createArrivingRequestCodec({ ...limits, borrowScalars: true }),
        response: createResponseCodec(),
      },
      onStream: (stream) => environments.accept(stream),
      routes: (router) => {
        router.service(Health, health.service, { readMaxBytes: maxQuestionBytes });
        router.service(SpectatorService, environments.spectators.service, {
          readMaxBytes: maxQuestionBytes,
        });
        options.routes?.(router);
        addReflection(router, [propertiesFile, ...(options.descriptors ?? [])]);
      },
      onError: (error) => emit({ kind: "transport-error", error }),
    });
  } catch (error) {
    await environments.close();
    throw error;
  }
  const close = createClose(environments, listener, health);
  return {
    host: listener.host,
    port: listener.port,
    url: listener.url,
    worldNames: () => environments.worldNames(),
    worlds: () => environments.worlds(),
    get sessionCount() {
      return environments.sessionCount;
    },
    counts: () => countsOf(environments, listener),
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

function countsOf(environments: EnvironmentServer, listener: Listener): ServerCounts {
  const { streams, types, refusals } = environments.counts();
  const all = new Map(refusals);
  for (const [limit, count] of listener.refusals) {
    all.set(limit, (all.get(limit) ?? 0) + count);
  }
  const { connections, bufferedBytes } = listener;
  return { streams, connections, bufferedBytes, types, refusals: all };
}

/**
 * Creates `Server.close`. The port stays open until the streams are closed, so that health stays
 * available.
 */
function createClose(
  environments: EnvironmentServer,
  listener: Listener,
  health: ReturnType<typeof createHealthBoard>,
): Server["close"] {
  let endsAt = Number.POSITIVE_INFINITY;
  let closed: Promise<void> | undefined;
  let portCloses = false;
  const closePort = (): Promise<void> => {
    portCloses = true;
    return listener.close({ graceMs: Math.max(0, endsAt - performance.now()) });
  };
  return ({ graceMs = 0 } = {}) => {
    endsAt = Math.min(endsAt, performance.now() + graceMs);
    health.stopServing();
    const drained = environments.close({ graceMs });
    if (portCloses) {
      void closePort();
    }
    closed ??= drained.then(() => {
      health.close();
      return closePort();
    });
    return closed;
  };
}
