// SPDX-License-Identifier: Apache-2.0

import { lstat, unlink } from "node:fs/promises";
import {
  createSecureServer,
  createServer,
  type Http2SecureServer,
  type Http2Server,
} from "node:http2";
import { connect, createServer as createNetServer, type Server, type Socket } from "node:net";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { toError } from "../internal/index.ts";
import { maxSessionMemoryMb, windowBytes } from "../limits/limits.ts";
import { joinHostPort } from "../stream/address.ts";
import { checkedCertificates } from "../stream/certificates.ts";
import type { ConnectionGate } from "./connections/connection-gate.ts";
import type { ListenTls } from "./listen-options.ts";

/** Maximum time for a TLS handshake, and for the first bytes of a connection in plain text, in ms. */
const handshakeMs = 10_000;

/**
 * Maximum number of streams in a row that node:http2 refuses before it ends the connection. After a reset, the stream
 * still counts as open until node:http2 has parsed all bytes that arrived with the reset. So node:http2 also refuses
 * streams of an honest peer that resets many streams and opens as many others at once. The value is the number of
 * resets that node:http2 accepts at once.
 */
const maxSessionRejectedStreams = 1_000;

/**
 * Creates an HTTP/2 server with large windows, in plain text or over TLS.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for a malformed certificate or key.
 */
export function createHttp2Server(
  maxStreamsPerConnection: number,
  tls: ListenTls | undefined,
): Http2Server | Http2SecureServer {
  const options = {
    settings: {
      initialWindowSize: windowBytes,
      maxConcurrentStreams: maxStreamsPerConnection,
    },
    maxSessionMemory: maxSessionMemoryMb,
    maxSessionRejectedStreams,
  };
  if (tls === undefined) {
    return createServer(options);
  }
  const clients = tls.clientCertificates ?? "none";
  return createSecureServer({
    ...options,
    ...checkedCertificates(tls),
    requestCert: clients !== "none",
    rejectUnauthorized: clients === "required",
    handshakeTimeout: handshakeMs,
    minVersion: "TLSv1.2",
    // With `allowHTTP1`, node:http2 would wrap every stream for its "request" event, even Process streams. Without
    // `allowHTTP1`, the server emits "unknownProtocol" for HTTP/1.1 connections.
    ALPNCallback: ({ protocols }) =>
      ["h2", "http/1.1"].find((protocol) => protocols.includes(protocol)),
  });
}

/** Address of a server, or the file of its Unix domain socket. */
type Place = { readonly host: string; readonly port: number } | { readonly path: string };

/**
 * Listens, and resolves with the port, which is 0 for a Unix domain socket. Replaces the file of a
 * Unix domain socket that a dead process left behind.
 *
 * @param backlog Connections that wait to be accepted.
 * @throws DmEnvRpcError UNAVAILABLE if the address cannot be listened on.
 */
export async function bind(server: Server, place: Place, backlog: number): Promise<number> {
  try {
    return await listenOn(server, place, backlog);
  } catch (cause) {
    const error = toError(cause);
    if ("path" in place && codeOf(error) === "EADDRINUSE" && (await isAbandoned(place.path))) {
      await unlink(place.path);
      return bind(server, place, backlog);
    }
    const [at, why] =
      "path" in place
        ? [`unix:${place.path}`, reasonOfPath(error)]
        : [joinHostPort(place.host, place.port), reasonOf(error)];
    throw new DmEnvRpcError("UNAVAILABLE", `cannot listen on ${at}: ${why}`, { cause });
  }
}

function listenOn(server: Server, place: Place, backlog: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen({ ...place, backlog }, () => {
      server.off("error", reject);
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
}

/** Returns true if `path` is a socket that no process listens on. */
async function isAbandoned(path: string): Promise<boolean> {
  // A file of another kind also refuses connections.
  if (!(await lstat(path)).isSocket()) {
    return false;
  }
  return new Promise((resolve) => {
    const socket = connect({ path });
    socket.once("connect", () => {
      socket.destroy();
      resolve(false);
    });
    socket.once("error", (error) => resolve(codeOf(error) === "ECONNREFUSED"));
  });
}

/** The first bytes of every HTTP/2 connection ("PRI * HTTP/2.0"). No HTTP/1.1 request begins with them. */
const http2Preface = Buffer.from("PRI");

/**
 * Creates the server that accepts connections. Each connection is paused until the gate starts it. Over TLS, the
 * handshake (ALPN) distinguishes HTTP/2 from HTTP/1.1.
 *
 * @param hasRoom Returns false if a further connection is closed at once.
 * @param onConnection Called when the connection may be read.
 */
export function createFrontServer(
  gate: ConnectionGate,
  hasRoom: () => boolean,
  onConnection: (socket: Socket) => void,
): Server {
  const server = createNetServer({ pauseOnConnect: true }, (socket) => {
    // This handler is never removed, because the socket may fail while no HTTP server handles its errors.
    socket.on("error", () => socket.destroy());
    if (!hasRoom()) {
      socket.destroy();
      return;
    }
    gate.admit(socket, () => {
      if (server.listening) {
        onConnection(socket);
      } else {
        socket.destroy();
      }
    });
  });
  return server;
}

/**
 * Distinguishes HTTP/2 from HTTP/1.1 by the first bytes of a connection in plain text.
 *
 * @param idleConnectionMs Time after which a connection that sends nothing is closed. 0, or more than 10 s, means 10 s.
 */
export function sniff(
  socket: Socket,
  http2: (socket: Socket) => void,
  http1: (socket: Socket) => void,
  idleConnectionMs: number,
): void {
  const silentMs = idleConnectionMs > 0 ? Math.min(idleConnectionMs, handshakeMs) : handshakeMs;
  socket.setTimeout(silentMs, () => socket.destroy());
  let first: Buffer = Buffer.alloc(0);
  const onReadable = (): void => {
    const chunk: Buffer | null = socket.read();
    if (chunk === null) {
      return;
    }
    first = Buffer.concat([first, chunk]);
    const known = Math.min(first.length, http2Preface.length);
    const isHttp2 = first.subarray(0, known).equals(http2Preface.subarray(0, known));
    if (isHttp2 && known < http2Preface.length) {
      return; // Too few bytes to decide.
    }
    socket.off("readable", onReadable);
    socket.setTimeout(0);
    socket.removeAllListeners("timeout");
    // Only now, because `onReadable` would be called again for these bytes.
    socket.unshift(first);
    (isHttp2 ? http2 : http1)(socket);
  };
  socket.on("readable", onReadable);
}

/** Tracks the open sockets of a server, and probes for peers that disappeared. */
export function trackSockets(
  server: Server,
  http2: Http2Server | Http2SecureServer,
  probeMs: number,
): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    if (probeMs > 0) {
      // Detects a dead peer where HTTP/2 pings cannot: during a handshake, or after a GOAWAY.
      socket.setKeepAlive(true, probeMs);
    }
  });
  http2.on("secureConnection", (socket: Socket) => {
    // After a TLS error, node:http2 ends its session but leaves the socket open.
    socket.on("error", () => socket.destroy());
  });
  return sockets;
}

function codeOf(error: Error): unknown {
  return "code" in error ? error.code : undefined;
}

function reasonOfPath(cause: Error): string {
  switch (codeOf(cause)) {
    case "EADDRINUSE":
      return "expected a free path, but a process listens there or it is a file of another kind; choose another path";
    case "EACCES":
    case "ENOENT":
      return "expected a folder that exists and that this user may write to; create it, or choose another path";
    case "EINVAL":
      return "expected a path of at most about 100 bytes; choose a shorter one";
    default:
      return cause.message;
  }
}

function reasonOf(cause: Error): string {
  switch (codeOf(cause)) {
    case "EADDRINUSE":
      return "expected a free port, but something listens there already; stop it, or choose another port (0 picks a free one)";
    case "EACCES":
      return "expected a port that this user may open, but it is privileged; choose one above 1023";
    case "EADDRNOTAVAIL":
      return "expected an address of this machine, received another; choose 127.0.0.1, 0.0.0.0 or one of this machine's addresses";
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return "expected a host name that resolves, but it is unknown; check the host";
    case "ERR_SOCKET_BAD_PORT":
      return "expected a port from 0 to 65535; choose another one";
    default:
      return cause.message;
  }
}
