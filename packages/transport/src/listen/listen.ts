// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Server, Socket } from "node:net";
import { Environment } from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { createArrivingRequestCodec } from "@dm-env-rpc/tensor-codec/wire";
import { createProcessHandler } from "../connect/connect-stream.ts";
import { GrpcServerStream } from "../http2/grpc-server-stream.ts";
import { maxTimeoutMs } from "../internal/time/time-source.ts";
import { type ListenLimits, listenLimits } from "../limits/listen-limits.ts";
import { joinHostPort, parseAddress, socketPath } from "../stream/address.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { jsonResponses, requestOfJson } from "../stream/json-messages.ts";
import { type ServerConnection, ServerConnections } from "./connections/server-connections.ts";
import { corsHeaders } from "./cors.ts";
import { Http1Connections } from "./http1/http1-connections.ts";
import { bind, createFrontServer, createHttp2Server, sniff, trackSockets } from "./http2-server.ts";
import type { CloseOptions, Listener, ListenOptions } from "./listen-options.ts";
import { originCheck } from "./origins.ts";
import { CallBytes } from "./requests/call-bytes.ts";
import { peerOf, peerOfSocket, processProtocolOf } from "./requests/process-call.ts";
import {
  refuseCall,
  refuseForNow,
  refuseOrigin,
  unsupportedEncoding,
} from "./requests/refusals.ts";
import type { Routes } from "./routes.ts";
import { type SharedState, shareState } from "./shared-state.ts";

const defaultHost = "127.0.0.1";

/** Default of `CloseOptions.graceMs`. */
const defaultGraceMs = 1_000;

/** Sockets allowed beyond `maxConnections`, for handshakes and refusals in progress. */
const spareSockets = 256;

/**
 * Listens for Process streams and for the calls of `routes`.
 *
 * Calls of Process over HTTP/2 by gRPC, Connect and gRPC-Web use this package's own framing. Calls over HTTP/1.1 go
 * through Connect's library, and `onStream` receives their streams, too.
 *
 * @throws DmEnvRpcError if the port cannot be listened on, or a certificate cannot be used.
 * @throws RangeError if a limit is out of range, or an allowed origin is malformed.
 */
export async function listen(options: ListenOptions): Promise<Listener> {
  const limits = listenLimits(options);
  return await listenOn(options, limits, shareState(limits, options.buffered), true);
}

/**
 * Listens on one port.
 *
 * @param isFirst True for a listener's first port, which closes what the ports share.
 */
async function listenOn(
  options: ListenOptions,
  limits: ListenLimits,
  shared: SharedState,
  isFirst: boolean,
): Promise<Listener> {
  // Clients load this module, too, so the libraries that only a listener needs are imported only here.
  const [{ acceptWebSockets }, { createRoutes }] = await Promise.all([
    import("./accept-web-sockets.ts"),
    import("./routes.ts"),
  ]);
  const host = options.host ?? defaultHost;
  const onError = options.onError ?? (() => {});
  const { refusals, buffered, rates, byNetwork, windows, turns, gate, pool } = shared;
  const { maxConnections, maxConnectionsPerAddress, maxMessageBytes } = limits;
  const { pingIntervalMs, idleConnectionMs } = limits;
  const codecs = options.codecs ?? { ...defaultCodecs(), request: createArrivingRequestCodec() };
  let streams = 0;
  const countStream = (): (() => void) => {
    streams += 1;
    return () => {
      streams -= 1;
    };
  };

  const http2 = createHttp2Server(limits.maxStreamsPerConnection, options.tls);
  const isAllowed = originCheck(options.allowedOrigins ?? [], options.tls !== undefined);
  const connections = new ServerConnections({
    maxConnections,
    maxConnectionsPerAddress,
    maxStreamsPerConnection: limits.maxStreamsPerConnection,
    floods: shared.floods,
    byNetwork,
    windows,
    turns,
    refusals,
    pingIntervalMs,
    idleConnectionMs,
    onFlood: (address) => gate.countFlood(address),
    floodingSinceMs: (network) => gate.floodingSinceMs(network),
    onError,
  });
  const http1 = new Http1Connections({
    maxConnections,
    maxConnectionsPerAddress,
    byNetwork,
    refusals,
    onError,
  });
  const requestLimit =
    limits.maxConnectRequestBytes < maxMessageBytes ? "maxConnectRequestBytes" : "maxMessageBytes";
  const maxRequestBytes = limits[requestLimit];
  const webSocketLimit =
    limits.maxWebSocketRequestBytes < maxMessageBytes
      ? "maxWebSocketRequestBytes"
      : "maxMessageBytes";
  const handler = createProcessHandler({
    codecs,
    onStream: options.onStream,
    maxRequestBytes,
    requestLimit,
    count: countStream,
    buffered,
  });
  const webSockets = acceptWebSockets({
    codecs,
    maxRequestBytes: limits[webSocketLimit],
    requestLimit: webSocketLimit,
    pingIntervalMs,
    buffered,
    pool,
    checks: shared.checks,
    isAllowed,
    // A connection above a limit is not counted in `refusals` here, because `http1.add` has counted it already.
    refusal: (address) => {
      if (byNetwork.total >= maxConnections) {
        return tooManyConnections("", "maxConnections", maxConnections);
      }
      return byNetwork.of(address) < maxConnectionsPerAddress
        ? rates.refusal(address)
        : tooManyConnections(
            " from one address",
            "maxConnectionsPerAddress",
            maxConnectionsPerAddress,
          );
    },
    byNetwork,
    onStream: options.onStream,
    routes: options.webSockets ?? new Map(),
    count: countStream,
    onError,
  });
  const routes = createRoutes({
    routes: (router) => {
      router.service(Environment, { process: handler }, { readMaxBytes: maxRequestBytes });
      options.routes?.(router);
    },
    byteStreams: options.byteStreams ?? new Map(),
    jsonStreams: options.jsonStreams ?? new Map(),
    files: options.files ?? new Map(),
    maxRequestBytes,
    idleConnectionMs,
    calls: shared.calls,
    rates,
    refusedRequests: shared.refusedRequests,
    idleCallMs: limits.idleStreamMs,
    buffered,
    onCall: options.onCall,
    isAllowed,
    refusalOf: (socket) => http1.refusalOf(socket),
    onUpgrade: (request, network, head) => {
      http1.release(request.socket);
      webSockets.upgrade(request, network, head, peerOfSocket(request.socket));
    },
    onFlood: (address) => gate.countFlood(address),
    onError,
  });

  const inProtobuf = { encoder: codecs.response, maxMessageBytes };
  const inJson = {
    encoder: jsonResponses(codecs),
    convert: requestOfJson,
    maxMessageBytes: maxRequestBytes,
    messageLimit: requestLimit,
  };
  const onHttp2Stream = (
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    _flags: number,
    rawHeaders: string[],
  ): void => {
    http2.on("error", ignore); // The stream reports the error after "close".
    const connection = http2.session && connections.get(http2.session);
    if (connection === undefined || connection.refused || http2.destroyed || http2.closed) {
      http2.destroy();
      return;
    }
    connection.streamOpened(http2);
    connection.startStream(http2, () => startStream(http2, headers, rawHeaders, connection));
  };
  const startStream = (
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: string[],
    connection: ServerConnection,
  ): void => {
    const tooMany = rates.refusal(connection.address);
    if (tooMany !== undefined) {
      connection.streamRefused(http2);
      refuseForNow(http2, headers, tooMany);
      return;
    }
    const protocol = processProtocolOf(headers);
    if (protocol === undefined) {
      const bytes = new CallBytes(buffered, connection.buffered, http2, headers, rawHeaders);
      http2.on("close", () => bytes.account.close());
      routes.handle(http2, headers, rawHeaders, connection, bytes.request);
      return;
    }
    if (!isAllowed(headers)) {
      connection.streamRefused(http2);
      refuseOrigin(http2, headers);
      return;
    }
    const unsupported = unsupportedEncoding(headers);
    if (unsupported !== undefined) {
      connection.streamRefused(http2);
      refuseCall(http2, unsupported);
      return;
    }
    http2.on("close", countStream());
    options.onStream(
      new GrpcServerStream({
        http2,
        headers,
        protocol,
        responseHeaders: corsHeaders(headers, isAllowed),
        side: "server",
        decoder: codecs.request,
        ...(protocol.isJson ? inJson : inProtobuf),
        pool,
        connectionFailure: connection.failure,
        openAccount: (holder) => buffered.open(connection.buffered, holder),
        batch: shared.batch,
        turns: { share: shared.checks, key: connection.turnKey },
        peer: peerOf(connection, headers),
        countRefused: () => connection.streamRefused(http2),
      }),
    );
  };
  http2.on("stream", onHttp2Stream);
  http2.on("session", (session: ServerHttp2Session) => {
    connections.add(session);
  });
  http2.on("tlsClientError", onError);
  const onHttp1 = (socket: Socket): void => {
    http1.add(socket);
    routes.handleHttp1(socket);
  };
  http2.on("unknownProtocol", onHttp1);
  // Over TLS, this is called before the handshake, for connections that will speak HTTP/1.1, too.
  const onConnection = (socket: Socket): void =>
    gate.admitHttp2(socket, () => {
      if (server.listening) {
        http2.emit("connection", socket);
      } else {
        socket.destroy();
      }
    });
  const maxSockets = maxConnections + spareSockets;
  const server = createFrontServer(
    gate,
    () => shared.sockets < maxSockets,
    options.tls === undefined
      ? (socket) => sniff(socket, onConnection, onHttp1, idleConnectionMs)
      : onConnection,
  );
  server.maxConnections = maxSockets;
  server.on("connection", (socket: Socket) => {
    shared.sockets += 1;
    socket.once("close", () => {
      shared.sockets -= 1;
    });
  });
  const sockets = trackSockets(server, http2, pingIntervalMs);

  const path = listenPath(host, options.tls !== undefined);
  const stop = (): void => {
    connections.stop();
    webSockets.stop();
    if (isFirst && options.buffered === undefined) {
      buffered.stop();
    }
  };
  let port: number;
  try {
    port = await bind(
      server,
      path === undefined ? { host, port: options.port ?? 0 } : { path },
      limits.listenBacklog,
    );
  } catch (error) {
    stop();
    throw error;
  }
  server.on("error", onError);
  const beginClose = (): void => {
    if (isFirst) {
      shared.isClosing = true;
      gate.close();
    } else {
      gate.drop(sockets);
    }
  };
  const close = createClose(server, beginClose, connections, routes, sockets, stop);
  return {
    host,
    port,
    url:
      path === undefined
        ? `${options.tls === undefined ? "http" : "https"}://${joinHostPort(host, port)}`
        : `unix:${path}`,
    get connections() {
      return sockets.size;
    },
    get streams() {
      return streams;
    },
    get bufferedBytes() {
      return buffered.bytes;
    },
    refusals: refusals.byLimit,
    addPort: async (further) => {
      const added = await listenOn({ ...portOptions(options), ...further }, limits, shared, false);
      if (shared.isClosing) {
        await added.close({ graceMs: 0 });
        throw new DmEnvRpcError(
          "FAILED_PRECONDITION",
          "cannot add a port: expected an open listener, received one that is closing; listen again",
        );
      }
      return added;
    },
    close,
    [Symbol.asyncDispose]: () => close(),
  };
}

function ignore(): void {}

/** Returns the options of a listener that also apply to its further ports. */
function portOptions({ host, tls, allowedOrigins, codecs, onError }: ListenOptions) {
  return { host, tls, allowedOrigins, codecs, onError };
}

/**
 * Returns the file of the Unix domain socket that `host` names; undefined if `host` names no Unix domain socket.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT if the path is malformed, or if the listener has TLS.
 */
function listenPath(host: string, hasTls: boolean): string | undefined {
  if (socketPath(host) === undefined) {
    return undefined;
  }
  if (hasTls) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `cannot serve TLS on a Unix domain socket: expected a host, received ${JSON.stringify(host)}; leave out tls`,
    );
  }
  return parseAddress(host).path;
}

/**
 * Returns the function that closes a listener in steps: it refuses new connections, refuses new streams, ends open
 * streams, and closes all sockets.
 */
function createClose(
  server: Server,
  begin: () => void,
  connections: ServerConnections,
  routes: Pick<Routes, "drain">,
  sockets: ReadonlySet<Socket>,
  stop: () => void,
): Listener["close"] {
  let closed: Promise<void> | undefined;
  const cut = (): void => {
    connections.destroy();
    // Deferred, so that each destroyed connection can send its GOAWAY. `connections` does not have the sockets that
    // never spoke HTTP/2.
    setImmediate(() => {
      for (const socket of sockets) {
        socket.destroy();
      }
    });
  };
  return (options: CloseOptions = {}) => {
    closed ??= new Promise((resolve) => {
      server.close(() => {
        stop();
        // The server no longer counts these sockets, but they have not emitted "close" yet.
        let open = sockets.size;
        for (const socket of sockets) {
          socket.once("close", () => {
            open -= 1;
            if (open === 0) {
              resolve();
            }
          });
        }
        if (open === 0) {
          resolve();
        }
      });
      begin();
      connections.drain();
      routes.drain();
    });
    const timer = setTimeout(cut, Math.min(options.graceMs ?? defaultGraceMs, maxTimeoutMs));
    return closed.finally(() => clearTimeout(timer));
  };
}

/** Returns the error of a refused connection, short enough for the reason of a WebSocket's close (123 bytes). */
function tooManyConnections(from: string, limit: string, most: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `too many connections${from}: expected at most ${most}; try again later (limit: ${limit})`,
  );
}
