// SPDX-License-Identifier: Apache-2.0
import type { DescFile } from "@bufbuild/protobuf";
import type { ConnectRouter } from "@connectrpc/connect";
import { Environment } from "@dm-env-rpc/protocol";
import { Health } from "@dm-env-rpc/protocol/health";
import { file_dm_env_rpc_v1_extensions_properties as propertiesFile } from "@dm-env-rpc/protocol/properties";
import { SpectatorService } from "@dm-env-rpc/protocol/spectator";
import { createRequestCodec, createResponseCodec } from "@dm-env-rpc/tensor-codec/wire";
import { isLoopback, type Listener, type ListenTls, listen } from "@dm-env-rpc/transport";
import { pageFiles } from "../page/page-files.ts";
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

const { watchWorld } = SpectatorService.method;
const watchWorldPath = `/${SpectatorService.typeName}/${watchWorld.name}`;

/** Options of `serve`. */
export interface ServeOptions extends EnvironmentServerOptions {
  /** Address to listen on, or `unix:/path` for a Unix domain socket. Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Port to listen on; 0, the default, picks one. Has no meaning for a Unix domain socket. */
  readonly port?: number | undefined;
  /** Serves TLS, and with `clientCertificates` asks who calls (mTLS). Default: plain text. */
  readonly tls?: ListenTls | undefined;
  /** Listens beyond this machine without TLS: whoever can read the wire reads along. Default false. */
  readonly allowInsecure?: boolean | undefined;
  /**
   * Origins of the web pages that may use this server, such as `https://play.example.org`; `*` for all.
   * Default: none but pages of the server's own origin. Clients that are no pages are not affected.
   */
  readonly allowedOrigins?: readonly string[] | undefined;
  /**
   * Serves a page at `/` that shows the worlds live and lets people play them. It calls this server as any
   * page would: with the role `spectator` to watch, `agent` to play. Default false.
   */
  readonly page?: boolean | undefined;
  /**
   * Adds further services to the port, for Connect, gRPC and gRPC-Web clients.
   * `authorize` is not asked about their calls.
   */
  readonly routes?: ((router: ConnectRouter) => void) | undefined;
  /** Files with the messages of extensions and PROTO tensors, for reflection to tell. */
  readonly descriptors?: readonly DescFile[] | undefined;
}

/** An environment server on the network. */
export interface Server extends AsyncDisposable {
  readonly host: string;
  readonly port: number;
  /** Such as `http://127.0.0.1:8980`, or `unix:/path`. */
  readonly url: string;
  /** Names of the worlds that there are. */
  worldNames(): readonly string[];
  /** The worlds that there are and who is in them, as it is now. */
  worlds(): readonly ServedWorld[];
  readonly sessionCount: number;
  /**
   * Closes in steps: health says NOT_SERVING, and new streams are refused; agents are told,
   * and streams end, as `EnvironmentServer.close` has it; then the port closes. Whatever
   * is still open `graceMs` (default 0) after the call is cut off.
   *
   * Further calls share the first one's end, and can only bring it nearer.
   */
  close(options?: CloseOptions): Promise<void>;
}

/**
 * Serves worlds over gRPC, WebSocket, gRPC-Web and Connect on one port, with health
 * (grpc.health.v1, overall and for each kind of world) and reflection beside them.
 *
 * @throws DmEnvRpcError when the port is taken, a certificate cannot be used, or a premade world cannot be made.
 * @throws RangeError for a limit or an allowed origin that is malformed.
 * @throws Error naming what is wrong with a definition; or when the host is beyond this machine, in plain text, and nobody said `allowInsecure`.
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
      byteStreams: new Map([[watchWorldPath, environments.spectators.watchWorldBytes]]),
      files,
      // Of scalars worlds get the values, and requests that wait have their own.
      codecs: {
        request: createRequestCodec({ ...limits, borrowScalars: true }),
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
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

/** The port stays open until the streams are gone, so that health can be asked meanwhile. */
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
