// SPDX-License-Identifier: Apache-2.0

import type { IncomingMessage, ServerResponse } from "node:http";
import {
  constants,
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { DescMethod } from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type ConnectRouter,
  createConnectRouter,
  createContextValues,
} from "@connectrpc/connect";
import type { UniversalHandlerFn, UniversalServerRequest } from "@connectrpc/connect/protocol";
import {
  compressionGzip,
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { setPeer } from "../connect/connect-stream.ts";
import { toConnectError } from "../internal/connect-errors.ts";
import type { RequestRates } from "../internal/counts/request-rates.ts";
import { maxTimeoutMs } from "../internal/time/time-source.ts";
import type { BufferedBytes } from "../limits/buffered-bytes.ts";
import { goodbyeMs } from "../limits/limits.ts";
import type { Peer } from "../stream/message-stream.ts";
import { processPath } from "../stream/process-path.ts";
import { http1Exchange, http2Exchange } from "./byte-exchanges.ts";
import { answerInBytes, type ByteStreams, byteAnswerOf } from "./byte-streams.ts";
import { holdEnd } from "./connections/held-end.ts";
import type { ServerConnection } from "./connections/server-connections.ts";
import { corsHeaders, type OriginCheck, preflightHeaders } from "./cors.ts";
import { type Http1Request, Http1Server } from "./http1/http1-server.ts";
import type { ByteStream, ListenOptions, ServedFile } from "./listen-options.ts";
import { peerOf } from "./requests/process-call.ts";
import {
  dropBody,
  dropRequest,
  refusedOrigin,
  refuseForNow,
  refuseOrigin,
  refusePath,
  unknownPath,
} from "./requests/refusals.ts";
import type { RefusedRequests } from "./requests/refused-requests.ts";
import type { RequestBytes } from "./requests/request-bytes.ts";
import type { SharedCalls } from "./shared-state.ts";

/** Options of `createRoutes`. */
export interface RoutesOptions {
  readonly routes: (router: ConnectRouter) => void;
  /** Maximum size of a request to a service that sets no `readMaxBytes`, in bytes. */
  readonly maxRequestBytes: number;
  /** Idle time after which an HTTP/1.1 connection is closed; 0 disables the limit. */
  readonly idleConnectionMs: number;
  /** Counts concurrent calls. Calls of Process count only over HTTP/1.1. */
  readonly calls: SharedCalls;
  /** Idle time after which a call whose request has not ended is reset; 0 disables the limit. */
  readonly idleCallMs: number;
  readonly buffered: BufferedBytes;
  /** Limits the rate of HTTP/1.1 requests. The listener itself limits the rate of HTTP/2 streams. */
  readonly rates: RequestRates;
  /** Limits the rate of HTTP/1.1 requests that are refused. */
  readonly refusedRequests: RefusedRequests;
  /** Admits a call before its request is read, or throws an error to refuse the call. Not called for Process. */
  readonly onCall?: ListenOptions["onCall"] | undefined;
  /** Byte streams by the path of their method. */
  readonly byteStreams: ReadonlyMap<string, ByteStream>;
  /** Byte streams for requests in JSON, by the path of their method. */
  readonly jsonStreams: ReadonlyMap<string, ByteStream>;
  /** Served files by path. */
  readonly files: ReadonlyMap<string, ServedFile>;
  /** Decides whether a page of the request's origin may make the request. */
  readonly isAllowed: OriginCheck;
  /** Returns why an HTTP/1.1 connection is refused; undefined if the connection is admitted. */
  readonly refusalOf: (socket: Socket) => string | undefined;
  /** Handles an HTTP/1.1 request to upgrade to a WebSocket. */
  readonly onUpgrade: (request: IncomingMessage, network: Duplex, head: Buffer) => void;
  /** Called with the address of a peer that sends too many HTTP/1.1 requests. */
  readonly onFlood: (address: string) => void;
  readonly onError: (error: Error) => void;
}

/** Handles the calls of a path. */
interface RouteHandler {
  readonly requestPath: string;
  readonly handle: UniversalHandlerFn;
  readonly kind: DescMethod["methodKind"];
  /** The method's byte streams, which answer the calls that `byteAnswerOf` supports. */
  readonly bytes: ByteStreams;
}

/** Serves the calls of a router of Connect. */
export interface Routes {
  handle(
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: string[],
    connection: ServerConnection,
    bytes: RequestBytes,
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
      const { requestPath, method } = handler;
      const bytes = {
        binary: options.byteStreams.get(requestPath),
        json: options.jsonStreams.get(requestPath),
      };
      const kind = method.methodKind;
      return [requestPath, { requestPath, handle: handler, kind, bytes }] as const;
    }),
  );

  const answer = async (
    handler: RouteHandler,
    request: IncomingMessage | Http2ServerRequest,
    response: ServerResponse | Http2ServerResponse,
    bytes: RequestBytes,
    peer: Peer,
  ): Promise<void> => {
    try {
      const values = createContextValues();
      setPeer(values, peer);
      const universal = universalRequestFromNodeRequest(request, response, undefined, values);
      dropEndlessTimeout(universal.header);
      const body = handler.requestPath === processPath ? bodyOf(request) : universal.body;
      const reply = await handler.handle({
        ...universal,
        body: isIterable(body) ? bytes.countRead(body, hasManyMessages(handler)) : body,
      });
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

  const { share, unary, streaming } = options.calls;
  /**
   * Counts a call until the returned function is called. Returns an error if the call is refused.
   *
   * @param refused Counts the call as refused for its connection, if it is refused later.
   */
  const admit = (
    { requestPath: path, kind }: RouteHandler,
    peer: Peer,
    refused: () => void,
  ): (() => void) | DmEnvRpcError | ConnectError => {
    const uncount = (kind === "unary" ? unary : streaming).open(peer.address);
    if (typeof uncount !== "function" || path === processPath) {
      return uncount;
    }
    if (options.onCall === undefined) {
      return uncount;
    }
    try {
      const ended: unknown = options.onCall({ path, peer, refused });
      if (typeof ended !== "function") {
        throw new TypeError(`onCall: expected it to return a function, received ${typeof ended}`);
      }
      return () => {
        uncount();
        ended();
      };
    } catch (error) {
      uncount();
      return toConnectError(error);
    }
  };

  const onHttp1Request = (exchange: Http1Request): void => {
    const { request, response, bytes } = exchange;
    const tooMany = options.rates.refusal(exchange.peer.address);
    if (tooMany !== undefined) {
      refuseHttp1(exchange, tooMany);
      return;
    }
    if (!options.isAllowed(request.headers)) {
      exchange.refuse(403, refusedOrigin(request.headers));
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
    if (handler === undefined) {
      exchange.refuse(404, unknownPath(request.url));
      return;
    }
    const peer = peerOf(exchange.peer, request.headers);
    const admitted = admit(handler, peer, () => exchange.countRefused());
    if (typeof admitted !== "function") {
      refuseHttp1(exchange, admitted);
      return;
    }
    response.once("close", admitted);
    if (handler.requestPath !== processPath) {
      exchange.endIfSilentFor(options.idleCallMs);
    }
    const inBytes = byteAnswerOf(handler.bytes, 1, request.method, request.headers);
    if (inBytes !== undefined) {
      const call = http1Exchange(request, response, bytes, peer);
      const timeoutMs = inBytes.protocol.timeoutMs(request.headers);
      answerInBytes(inBytes, call, timeoutMs).catch(options.onError);
    } else {
      answer(handler, request, response, bytes, peer).catch(options.onError);
    }
  };
  const http1 = new Http1Server({
    idleConnectionMs: options.idleConnectionMs,
    buffered: options.buffered,
    share,
    refusedRequests: options.refusedRequests,
    refusalOf: options.refusalOf,
    onRequest: onHttp1Request,
    onUpgrade: options.onUpgrade,
    onFlood: options.onFlood,
    onError: options.onError,
  });

  /** Resets a call that has sent nothing for `idleCallMs` before its request has ended. */
  const onIdle = function (this: ServerHttp2Stream): void {
    if (!this.readableEnded) {
      this.close(constants.NGHTTP2_CANCEL);
    }
  };

  return {
    handle(http2, headers, rawHeaders, connection, bytes) {
      if (!options.isAllowed(headers)) {
        connection.streamRefused(http2);
        refuseOrigin(http2, headers);
        return;
      }
      if (headers[":method"] === "OPTIONS") {
        const preflight = preflightHeaders(headers, options.isAllowed);
        http2.respond({ ":status": 204, ...preflight }, { endStream: true });
        dropRequest(http2);
        return;
      }
      const file = isRead(headers[":method"]) && options.files.get(pathOf(headers[":path"]));
      if (file) {
        const { head, body } = responseOf(file, headers);
        http2.respond({ ":status": 200, ...head });
        http2.end(headers[":method"] === "HEAD" ? undefined : body);
        dropRequest(http2);
        return;
      }
      const handler = handlers.get(pathOf(headers[":path"]));
      if (handler === undefined) {
        connection.streamRefused(http2);
        refusePath(http2, headers);
        return;
      }
      const peer = peerOf(connection, headers);
      if (handler.requestPath !== processPath) {
        const admitted = admit(handler, peer, () => connection.streamRefused(http2));
        if (typeof admitted !== "function") {
          connection.streamRefused(http2);
          refuseForNow(http2, headers, admitted);
          return;
        }
        http2.on("close", admitted);
        http2.on("timeout", onIdle);
        http2.setTimeout(options.idleCallMs);
      }
      const start = (): void => {
        share.count();
        if (http2.destroyed || http2.closed) {
          http2.destroy();
          return;
        }
        http2.on("finish", () => {
          bytes.end();
          dropBody(http2);
        });
        const cors = corsHeaders(headers, options.isAllowed);
        const inBytes = byteAnswerOf(handler.bytes, 2, headers[":method"], headers);
        if (inBytes !== undefined) {
          const exchange = http2Exchange(http2, headers, bytes, peer, cors);
          const timeoutMs = inBytes.protocol.timeoutMs(headers);
          answerInBytes(inBytes, exchange, timeoutMs).catch(options.onError);
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
        answer(handler, request, response, bytes, peer).catch(options.onError);
      };
      if (share.isOver) {
        const releaseEnd = holdEnd(http2);
        share.wait(connection.turnKey, () => {
          start();
          releaseEnd();
        });
      } else {
        start();
      }
    },
    handleHttp1: (socket) => http1.add(socket),
    drain: () => http1.drain(),
  };
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
function refuseHttp1(exchange: Http1Request, error: DmEnvRpcError | ConnectError): void {
  const { metadata, rawMessage } = toConnectError(error);
  exchange.refuse(429, rawMessage, Object.fromEntries(metadata));
}

/** Returns true if a request may have many messages. Each is delivered as soon as it is complete. */
function hasManyMessages({ kind }: RouteHandler): boolean {
  return kind === "client_streaming" || kind === "bidi_streaming";
}

function isIterable(body: UniversalServerRequest["body"]): body is AsyncIterable<Uint8Array> {
  return typeof body === "object" && body !== null && Symbol.asyncIterator in body;
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
