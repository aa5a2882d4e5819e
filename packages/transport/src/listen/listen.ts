// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders, ServerHttp2Session, ServerHttp2Stream } from "node:http2";
import type { Server, Socket } from "node:net";
import { Environment } from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { createProcessHandler } from "../connect/connect-stream.ts";
import { createBufferPool } from "../http2/buffer-pool.ts";
import { GrpcServerStream } from "../http2/grpc-server-stream.ts";
import { NetworkCounts } from "../internal/network-counts.ts";
import { RefusalCounts } from "../internal/refusal-counts.ts";
import { RequestRates } from "../internal/request-rates.ts";
import { maxTimeoutMs } from "../internal/time-source.ts";
import { BufferedBytes } from "../limits/buffered-bytes.ts";
import { listenLimits } from "../limits/listen-limits.ts";
import { joinHostPort, parseAddress, socketPath } from "../stream/address.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { openCallAccount } from "./call-bytes.ts";
import { ConnectionGate } from "./connection-gate.ts";
import { corsHeaders } from "./cors.ts";
import { Http1Connections } from "./http1-connections.ts";
import { bind, createFrontServer, createHttp2Server, sniff, trackSockets } from "./http2-server.ts";
import type { CloseOptions, Listener, ListenOptions } from "./listen-options.ts";
import { originCheck } from "./origins.ts";
import { peerOf, peerOfSocket, processProtocolOf } from "./process-call.ts";
import { refuseCall, refuseForNow, refuseOrigin, unsupportedEncoding } from "./refusals.ts";
import type { Routes } from "./routes.ts";
import { ServerConnections } from "./server-connections.ts";

const defaultHost = "127.0.0.1";

/** Default of `CloseOptions.graceMs`. */
const defaultGraceMs = 1_000;

/** Maximum size of the unused buffers that a listener keeps for large messages: enough for forty messages of 214 KB. */
const pooledBytes = 8 * 1024 * 1024;

/** Sockets allowed beyond `maxConnections`, for handshakes and refusals in progress. */
const spareSockets = 256;

/**
 * Listens for Process streams and for the calls of `routes`.
 *
 * Calls of Process over HTTP/2 by gRPC, Connect and gRPC-Web in protobuf use this package's own framing. Calls in JSON
 * and over HTTP/1.1 go through Connect's library, and `onStream` receives their streams, too.
 *
 * @throws DmEnvRpcError if the port cannot be listened on, or a certificate cannot be used.
 * @throws RangeError if a limit is out of range, or an allowed origin is malformed.
 */
export async function listen(options: ListenOptions): Promise<Listener> {
  // Clients load this module, too, so the libraries that only a listener needs are imported only here.
  const [{ acceptWebSockets }, { createRoutes }] = await Promise.all([
    import("./accept-web-sockets.ts"),
    import("./routes.ts"),
  ]);
  const host = options.host ?? defaultHost;
  const onError = options.onError ?? (() => {});
  const limits = listenLimits(options);
  const { maxConnections, maxConnectionsPerAddress, maxMessageBytes } = limits;
  const { pingIntervalMs, idleConnectionMs } = limits;
  const codecs = options.codecs ?? defaultCodecs();
  const pool = createBufferPool(pooledBytes);
  const refusals = new RefusalCounts();
  const buffered = options.buffered ?? new BufferedBytes(limits, refusals);
  const rates = new RequestRates(limits.maxRequestsPerSecond, { refusals });
  let streams = 0;
  const countStream = (): (() => void) => {
    streams += 1;
    return () => {
      streams -= 1;
    };
  };

  const http2 = createHttp2Server(limits.maxStreamsPerConnection, options.tls);
  const isAllowed = originCheck(options.allowedOrigins ?? [], options.tls !== undefined);
  const byNetwork = new NetworkCounts();
  const gate = new ConnectionGate({ ...limits, buffered, refusals });
  const connections: ServerConnections = new ServerConnections({
    maxConnections,
    maxConnectionsPerAddress,
    maxStreamsPerConnection: limits.maxStreamsPerConnection,
    others: () => webSockets.size + http1.count,
    byNetwork,
    refusals,
    pingIntervalMs,
    idleConnectionMs,
    onFlood: (address) => gate.countFlood(address),
    onError,
  });
  const http1: Http1Connections = new Http1Connections({
    maxConnections,
    maxConnectionsPerAddress,
    others: () => webSockets.size + connections.count,
    byNetwork,
    refusals,
    onError,
  });
  const requestLimit =
    limits.maxConnectRequestBytes < maxMessageBytes ? "maxConnectRequestBytes" : "maxMessageBytes";
  const maxRequestBytes = limits[requestLimit];
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
    maxMessageBytes,
    pingIntervalMs,
    buffered,
    isAllowed,
    // A connection above a limit is not counted in `refusals` here, because `http1.add` has counted it already.
    refusal: (address) => {
      if (connections.count + webSockets.size + http1.count >= maxConnections) {
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
    files: options.files ?? new Map(),
    maxRequestBytes,
    idleConnectionMs,
    maxCalls: limits.maxStreams,
    rates,
    refusals,
    idleCallMs: limits.idleStreamMs,
    buffered,
    onCall: options.onCall,
    isAllowed,
    refusalOf: (socket) => http1.refusalOf(socket),
    onUpgrade: (request, network, head) => {
      http1.release(request.socket);
      webSockets.upgrade(request, network, head, peerOfSocket(request.socket));
    },
    onError,
  });

  const onHttp2Stream = (
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    _flags: number,
    rawHeaders: string[],
  ): void => {
    http2.on("error", () => {}); // The stream reports the error after "close".
    const connection = http2.session && connections.get(http2.session);
    if (connection === undefined || connection.refused || http2.destroyed || http2.closed) {
      http2.destroy();
      return;
    }
    connection.streamOpened(http2);
    http2.once("close", connection.streamClosed);
    const tooMany = rates.refusal(connection.address);
    if (tooMany !== undefined) {
      connection.streamRefused();
      refuseForNow(http2, headers, tooMany);
      return;
    }
    const protocol = processProtocolOf(headers);
    if (protocol === undefined) {
      const account = openCallAccount(buffered, connection.buffered, http2, headers, rawHeaders);
      http2.once("close", account.close);
      routes.handle(http2, headers, rawHeaders, connection);
      return;
    }
    if (!isAllowed(headers)) {
      connection.streamRefused();
      refuseOrigin(http2, headers);
      return;
    }
    const unsupported = unsupportedEncoding(headers);
    if (unsupported !== undefined) {
      connection.streamRefused();
      refuseCall(http2, unsupported);
      return;
    }
    http2.once("close", countStream());
    options.onStream(
      new GrpcServerStream({
        http2,
        headers,
        protocol,
        responseHeaders: corsHeaders(headers, isAllowed),
        side: "server",
        decoder: codecs.request,
        encoder: codecs.response,
        maxMessageBytes,
        pool,
        connectionFailure: connection.failure,
        openAccount: (holder) => buffered.open(connection.buffered, holder),
        peer: peerOf(connection, headers),
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
  const onConnection = (socket: Socket): void => void http2.emit("connection", socket);
  const server = createFrontServer(
    gate,
    options.tls === undefined
      ? (socket) => sniff(socket, onConnection, onHttp1, idleConnectionMs)
      : onConnection,
  );
  server.maxConnections = maxConnections + spareSockets;
  const sockets = trackSockets(server, http2, pingIntervalMs);

  const path = listenPath(host, options.tls !== undefined);
  const port = await bind(
    server,
    path === undefined ? { host, port: options.port ?? 0 } : { path },
    limits.listenBacklog,
  );
  server.on("error", onError);
  const close = createClose(server, gate, connections, routes, sockets, () => {
    if (options.buffered === undefined) {
      buffered.stop();
    }
    webSockets.stop();
  });
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
    close,
    [Symbol.asyncDispose]: () => close(),
  };
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
  gate: ConnectionGate,
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
        connections.stop();
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
      gate.close();
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
