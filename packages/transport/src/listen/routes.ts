// SPDX-License-Identifier: Apache-2.0

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  type ContextValues,
  createConnectRouter,
  createContextValues,
} from "@connectrpc/connect";
import type { UniversalHandlerFn } from "@connectrpc/connect/protocol";
import {
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { setPeer } from "../connect/connect-stream.ts";
import { toConnectError } from "../internal/connect-errors.ts";
import { networkOf } from "../internal/network-of.ts";
import type { RefusalCounts } from "../internal/refusal-counts.ts";
import type { RequestRates } from "../internal/request-rates.ts";
import { ThreadShare } from "../internal/thread-share.ts";
import { maxTimeoutMs } from "../internal/time-source.ts";
import { type BufferedBytes, connectionBytes } from "../limits/buffered-bytes.ts";
import { goodbyeMs } from "../limits/limits.ts";
import type { Peer } from "../stream/message-stream.ts";
import { processPath } from "../stream/process-path.ts";
import { http1Exchange, http2Exchange } from "./byte-exchanges.ts";
import { answerInBytes, byteProtocolOf } from "./byte-streams.ts";
import { bytesOfSocket } from "./call-bytes.ts";
import { corsHeaders, type OriginCheck, preflightHeaders } from "./cors.ts";
import type { ByteStream, ListenOptions, ServedFile } from "./listen-options.ts";
import { peerOf, peerOfSocket } from "./process-call.ts";

import { refusedOrigin, refuseForNow, refuseOrigin, refusePath, unknownPath } from "./refusals.ts";
import type { ServerConnection } from "./server-connections.ts";

const plainText = { "content-type": "text/plain; charset=utf-8" };

/** Time for an HTTP/1.1 connection to send the headers of a request. */
const requestHeadMs = 10_000;

/**
 * Maximum number of calls that start in a turn of the event loop. Connect takes a fifth of a millisecond for each call,
 * most of it after the start. If hundreds of calls started at once, all streams would wait for them.
 */
const callsPerTurn = 16;

/** Options of `createRoutes`. */
export interface RoutesOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** Maximum size of a request to a service that sets no `readMaxBytes`, in bytes. */
  readonly maxRequestBytes: number;
  /** Idle time after which an HTTP/1.1 connection is closed; 0 disables the limit. */
  readonly idleConnectionMs: number;
  /** Maximum number of concurrent calls. Calls of Process count only over HTTP/1.1. */
  readonly maxCalls: number;
  /** Idle time after which a call whose request has not ended is reset; 0 disables the limit. */
  readonly idleCallMs: number;
  readonly buffered: BufferedBytes;
  /** Limits the rate of HTTP/1.1 requests. The listener itself limits the rate of HTTP/2 streams. */
  readonly rates: RequestRates;
  /** Counts calls that `maxCalls` refuses. */
  readonly refusals: RefusalCounts;
  /** Admits a call before its request is read, or throws an error to refuse the call. Not called for Process. */
  readonly onCall?: ListenOptions["onCall"] | undefined;
  /** Byte streams by the path of their method. */
  readonly byteStreams: ReadonlyMap<string, ByteStream>;
  /** Served files by path. */
  readonly files: ReadonlyMap<string, ServedFile>;
  /** Decides whether a page of the request's origin may make the request. */
  readonly isAllowed: OriginCheck;
  /** Returns why an HTTP/1.1 connection is refused; undefined if the connection is admitted. */
  readonly refusalOf: (socket: Socket) => string | undefined;
  /** Handles an HTTP/1.1 request to upgrade to a WebSocket. */
  readonly onUpgrade: (request: IncomingMessage, network: Duplex, head: Buffer) => void;
  readonly onError: (error: Error) => void;
}

/** Handles the calls of a path. */
interface RouteHandler {
  readonly requestPath: string;
  readonly handle: UniversalHandlerFn;
  /** Answers the calls that `byteProtocolOf` supports, with responses that are encoded already. */
  readonly bytes: ByteStream | undefined;
}

/** Serves the calls of a router of Connect. */
export interface Routes {
  handle(
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: string[],
    connection: ServerConnection,
  ): void;
  /** Serves a connection whose client speaks HTTP/1.1. */
  handleHttp1(socket: Socket): void;
  /** Refuses new HTTP/1.1 requests. Each connection closes after its current response. */
  drain(): void;
}

/**
 * Serves a Connect router, request by request.
 *
 * node:http2's "request" event would also wrap the streams of Process, so this function creates the request and the
 * response, only for the streams that need them. Connect's own adapter would write errors to the console; this function
 * calls `onError` instead.
 */
export function createRoutes(options: RoutesOptions): Routes {
  const router = createConnectRouter({
    // Requests may be compressed. Responses are not, because compressing them costs far more than it saves; by default,
    // Connect would compress those of 1 KiB or more.
    acceptCompression: [compressionGzip],
    compressMinBytes: Number.POSITIVE_INFINITY,
    readMaxBytes: options.maxRequestBytes,
  });
  options.routes(router);
  const handlers = new Map(
    router.handlers.map((handler) => {
      const { requestPath } = handler;
      const bytes = options.byteStreams.get(requestPath);
      return [requestPath, { requestPath, handle: handler, bytes }] as const;
    }),
  );

  const answer = async (
    handler: RouteHandler,
    request: IncomingMessage | Http2ServerRequest,
    response: ServerResponse | Http2ServerResponse,
    values: ContextValues,
  ): Promise<void> => {
    try {
      const universal = universalRequestFromNodeRequest(request, response, undefined, values);
      dropEndlessTimeout(universal.header);
      const reply = await handler.handle(
        handler.requestPath === processPath ? { ...universal, body: bodyOf(request) } : universal,
      );
      await universalResponseToNodeResponse(reply, response);
    } catch (thrown) {
      const error = ConnectError.from(thrown);
      // Connect's code for a client that has disconnected.
      if (error.code !== Code.Aborted) {
        options.onError(error);
      }
      if (response.headersSent) {
        response.destroy();
      } else {
        response.statusCode = 400;
        response.end();
      }
    }
  };

  const share = new ThreadShare(undefined, undefined, callsPerTurn);
  let calls = 0;
  /** Counts a call until the returned function is called. Returns an error if the call is refused. */
  const admit = (path: string, peer: Peer): (() => void) | ConnectError => {
    if (calls >= options.maxCalls) {
      options.refusals.count("maxStreams");
      return new ConnectError(
        `too many calls: expected at most ${options.maxCalls} at a time; try again later (limit: maxStreams)`,
        Code.ResourceExhausted,
      );
    }
    try {
      const ended = path === processPath ? undefined : options.onCall?.({ path, peer });
      calls += 1;
      return () => {
        calls -= 1;
        ended?.();
      };
    } catch (error) {
      return toConnectError(error);
    }
  };

  /**
   * HTTP/1.1 connections without a request, with their timeouts. node:http has such a timeout itself, but only for
   * servers that listen.
   */
  const idle = new Map<Socket, NodeJS.Timeout>();
  let draining = false;
  const requests = new WeakMap<Socket, number>();
  const closeAccount = new WeakMap<Socket, () => void>();
  const awaitRequest = (socket: Socket): void => {
    if (draining || socket.destroyed) {
      socket.destroy();
      return;
    }
    idle.set(socket, setTimeout(() => socket.destroy(), requestHeadMs).unref());
  };
  const endWait = (socket: Socket): void => {
    clearTimeout(idle.get(socket));
    idle.delete(socket);
  };

  const http1 = createServer({ shouldUpgradeCallback: isWebSocket }, (request, response) => {
    const { socket } = request;
    endWait(socket);
    requests.set(socket, (requests.get(socket) ?? 0) + 1);
    response.once("close", () => {
      const left = (requests.get(socket) ?? 1) - 1;
      requests.set(socket, left);
      if (left === 0) {
        awaitRequest(socket);
      }
    });
    const refusal = options.refusalOf(socket);
    if (refusal !== undefined) {
      response.writeHead(503, { ...plainText, "retry-after": "1", connection: "close" });
      response.end(`${refusal}\n`);
      return;
    }
    const tooMany = options.rates.refusal(peerOfSocket(socket).address);
    if (tooMany !== undefined) {
      refuseHttp1(response, tooMany);
      return;
    }
    if (!options.isAllowed(request.headers)) {
      response.writeHead(403, plainText);
      response.end(`${refusedOrigin(request.headers)}\n`);
      return;
    }
    if (request.method === "OPTIONS") {
      response.writeHead(204, preflightHeaders(request.headers, options.isAllowed)).end();
      return;
    }
    setHeaders(response, corsHeaders(request.headers, options.isAllowed));
    const file = isRead(request.method) ? options.files.get(pathOf(request.url)) : undefined;
    if (file !== undefined) {
      const { head, body } = responseOf(file, request.headers);
      response.writeHead(200, head);
      response.end(request.method === "HEAD" ? undefined : body);
      return;
    }
    const handler = handlers.get(pathOf(request.url));
    const peer = peerOf(peerOfSocket(request.socket), request.headers);
    if (handler === undefined) {
      response.writeHead(404, plainText).end(`${unknownPath(request.url)}\n`);
      return;
    }
    const admitted = admit(handler.requestPath, peer);
    if (admitted instanceof ConnectError) {
      refuseHttp1(response, admitted);
      return;
    }
    response.once("close", admitted);
    const values = createContextValues();
    setPeer(values, peer);
    const protocol = handler.bytes && byteProtocolOf(1, request.method, request.headers);
    if (handler.bytes !== undefined && protocol !== undefined) {
      const exchange = http1Exchange(request, response, values);
      answerInBytes(handler.bytes, protocol, exchange).catch(options.onError);
    } else {
      answer(handler, request, response, values).catch(options.onError);
    }
  });
  http1.on("upgrade", (request, network, head) => {
    endWait(request.socket);
    closeAccount.get(request.socket)?.(); // The WebSocket has a separate account.
    if (draining) {
      network.destroy();
    } else {
      options.onUpgrade(request, network, head);
    }
  });
  // Only a connection without a request is idle; a call may be silent for a long time.
  http1.setTimeout(options.idleConnectionMs, (socket) => {
    if (idle.has(socket)) {
      socket.destroy();
    }
  });
  http1.on("clientError", (error, socket) => {
    options.onError(error);
    // A client that speaks TLS thus learns that the port is in plain text.
    socket.end("HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n", () => socket.destroy());
  });

  /** Resets a call that sends nothing for `idleCallMs` before its request has ended. */
  const lookAfter = (http2: ServerHttp2Stream): void => {
    http2.setTimeout(options.idleCallMs, () => {
      if (!http2.readableEnded) {
        http2.close(constants.NGHTTP2_CANCEL);
      }
    });
  };

  return {
    handle(http2, headers, rawHeaders, connection) {
      if (!options.isAllowed(headers)) {
        connection.streamRefused();
        refuseOrigin(http2, headers);
        return;
      }
      if (headers[":method"] === "OPTIONS") {
        const preflight = preflightHeaders(headers, options.isAllowed);
        http2.respond({ ":status": 204, ...preflight }, { endStream: true });
        return;
      }
      const file = isRead(headers[":method"]) && options.files.get(pathOf(headers[":path"]));
      if (file) {
        const { head, body } = responseOf(file, headers);
        http2.respond({ ":status": 200, ...head });
        http2.end(headers[":method"] === "HEAD" ? undefined : body);
        return;
      }
      const handler = handlers.get(pathOf(headers[":path"]));
      if (handler === undefined) {
        connection.streamRefused();
        refusePath(http2, headers);
        return;
      }
      const peer = peerOf(connection, headers);
      if (handler.requestPath !== processPath) {
        const admitted = admit(handler.requestPath, peer);
        if (admitted instanceof ConnectError) {
          connection.streamRefused();
          refuseForNow(http2, headers, admitted);
          return;
        }
        http2.once("close", admitted);
        lookAfter(http2);
      }
      const start = (): void => {
        share.count();
        if (http2.destroyed || http2.closed) {
          return;
        }
        const values = createContextValues();
        setPeer(values, peer);
        const cors = corsHeaders(headers, options.isAllowed);
        const protocol = handler.bytes && byteProtocolOf(2, headers[":method"], headers);
        if (handler.bytes !== undefined && protocol !== undefined) {
          const exchange = http2Exchange(http2, headers, values, cors);
          answerInBytes(handler.bytes, protocol, exchange).catch(options.onError);
          return;
        }
        const request = new Http2ServerRequest(http2, headers, {}, rawHeaders);
        const response = new Http2ServerResponse(http2);
        setHeaders(response, cors);
        // The end of the response ends the call. So a client that never ends its request does not keep the
        // stream open.
        http2.once("wantTrailers", () => {
          const timer = setTimeout(() => http2.close(), goodbyeMs).unref();
          http2.once("close", () => clearTimeout(timer));
        });
        answer(handler, request, response, values).catch(options.onError);
      };
      if (share.isOver) {
        share.wait(networkOf(peer.address), start);
      } else {
        start();
      }
    },
    handleHttp1(socket) {
      const account = options.buffered.open(
        connectionBytes(peerOfSocket(socket).address),
        bytesOfSocket(socket),
      );
      closeAccount.set(socket, account.close);
      socket.once("close", () => {
        endWait(socket);
        account.close();
      });
      awaitRequest(socket);
      http1.emit("connection", socket);
    },
    drain() {
      draining = true;
      for (const socket of idle.keys()) {
        socket.destroy();
      }
    },
  };
}

/**
 * Returns true for an upgrade to a WebSocket. Requests with other upgrades, such as h2c, are answered as plain
 * requests.
 */
function isWebSocket(request: IncomingMessage): boolean {
  return request.headers.upgrade?.toLowerCase() === "websocket";
}

/**
 * Reads the body of a request. If the reader stops early, at a message that is too large, the rest of the body is
 * dropped. The stream stays open for responses that are not sent yet.
 */
async function* bodyOf(
  request: IncomingMessage | Http2ServerRequest,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for await (const chunk of request.iterator({ destroyOnReturn: false })) {
      yield chunk;
    }
  } finally {
    request.resume();
  }
}

/** Removes a deadline beyond the longest timer (24.8 days), because Connect would end such a call at once. */
function dropEndlessTimeout(header: Headers): void {
  const [, count, unit] = /^(\d+)([HMS])$/.exec(header.get("grpc-timeout") ?? "") ?? [];
  const unitMs = { H: 3_600_000, M: 60_000, S: 1_000 }[unit ?? ""] ?? 0;
  if (Number(count) * unitMs > maxTimeoutMs) {
    header.delete("grpc-timeout");
  }
  if (Number(header.get("connect-timeout-ms")) > maxTimeoutMs) {
    header.delete("connect-timeout-ms");
  }
}

/** Answers an HTTP/1.1 request above a limit. */
function refuseHttp1(response: ServerResponse, error: DmEnvRpcError | ConnectError): void {
  const { metadata, rawMessage } = toConnectError(error);
  response.writeHead(429, { ...plainText, ...Object.fromEntries(metadata) });
  response.end(`${rawMessage}\n`);
}

function isRead(method: string | undefined): boolean {
  return method === "GET" || method === "HEAD";
}

/** Returns a file's response in an encoding that the client accepts. */
function responseOf({ headers, body, gzip }: ServedFile, request: IncomingHttpHeaders) {
  const isZipped = gzip !== undefined && /\bgzip\b/.test(String(request["accept-encoding"]));
  const sent = isZipped ? gzip : body;
  const head: Record<string, string> = {
    ...headers,
    "content-length": String(sent.length),
    vary: "accept-encoding",
    ...(isZipped ? { "content-encoding": "gzip" } : {}),
  };
  return { head, body: sent };
}

function setHeaders(
  response: ServerResponse | Http2ServerResponse,
  headers: Readonly<Record<string, string>>,
): void {
  for (const [name, value] of Object.entries(headers)) {
    response.setHeader(name, value);
  }
}

function pathOf(url: string | undefined): string {
  return url?.split("?", 1)[0] ?? "";
}
