// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { type WebSocket, WebSocketServer } from "ws";
import type { Arriving } from "../assembly/assembly.ts";
import type { BufferPool } from "../assembly/buffer-pool.ts";
import type { NetworkCounts } from "../internal/counts/network-counts.ts";
import { toError } from "../internal/index.ts";
import { turnKeyOf } from "../internal/turns/network-turns.ts";
import type { ThreadShare } from "../internal/turns/thread-share.ts";
import { type BufferedBytes, connectionBytes } from "../limits/buffered-bytes.ts";
import type { CallCodecs } from "../stream/call-codecs.ts";
import type { Peer, ServerStream } from "../stream/message-stream.ts";
import { processPath } from "../stream/process-path.ts";
import { Pings } from "../websocket/pings.ts";
import {
  closeCodeOf,
  closeReasonOf,
  offeredMetadata,
  statusMessageOf,
  subprotocol,
} from "../websocket/protocol.ts";
import { type Socket, WebSocketStream } from "../websocket/websocket-stream.ts";
import { PatientWebSocket, wsOptions, wsSocket } from "../websocket/ws-socket.ts";
import type { OriginCheck } from "./cors.ts";
import type { WebSocketRoute } from "./listen-options.ts";
import { type HttpPeer, metadataOf } from "./requests/process-call.ts";
import { refusedOrigin, unknownPath } from "./requests/refusals.ts";

/** Options of `acceptWebSockets`. */
export interface WebSocketOptions {
  readonly codecs: CallCodecs;
  /** Maximum size of a request of Process, in bytes. */
  readonly maxRequestBytes: number;
  /** Name of the limit that sets `maxRequestBytes`. */
  readonly requestLimit: string;
  /**
   * Interval of the pings to each WebSocket, in ms. A WebSocket is closed if it has not answered a ping when the next
   * ping is due. 0 disables pings.
   */
  readonly pingIntervalMs: number;
  readonly buffered: BufferedBytes;
  /** Memory for the first bytes of large requests. */
  readonly pool: BufferPool;
  /** Shares the thread among all streams that check large requests. */
  readonly checks: ThreadShare;
  /** Decides whether a page of the request's origin may connect. */
  readonly isAllowed: OriginCheck;
  /** Returns the error for a connection above a limit; undefined if the connection is within all limits. */
  readonly refusal: (address: string) => DmEnvRpcError | undefined;
  /** Number of connections from each network, over all protocols and ports. */
  readonly byNetwork: NetworkCounts;
  readonly onStream: (stream: ServerStream) => void;
  /** Other protocols over WebSockets, by path. */
  readonly routes: ReadonlyMap<string, WebSocketRoute>;
  /**
   * Counts a stream as open.
   *
   * @returns A function to call when the stream has closed.
   */
  readonly count: () => () => void;
  readonly onError: (error: Error) => void;
}

/** Receives the WebSockets of one path. */
interface Acceptor extends Omit<WebSocketRoute, "accept"> {
  /** Starts to check a large message. */
  readonly arriving?: Arriving | undefined;
  accept(socket: Socket, peer: Peer, webSocket: WebSocket): void;
}

/** WebSockets of a listener. */
export interface WebSockets {
  /** Handles an HTTP/1.1 upgrade request. */
  upgrade(request: IncomingMessage, network: Duplex, head: Buffer, peer: HttpPeer): void;
  /** Stops the pings. */
  stop(): void;
}

/**
 * Accepts WebSockets: streams at the path of Process, and other protocols at the paths of `routes`.
 *
 * A refused WebSocket is opened, then closed with the status in its close code, because a page cannot read
 * the HTTP status of a failed upgrade.
 */
export function acceptWebSockets(options: WebSocketOptions): WebSockets {
  const { codecs, maxRequestBytes, requestLimit, onError } = options;
  const processes: Acceptor = {
    subprotocol,
    maxMessageBytes: maxRequestBytes,
    arriving: codecs.request.arriving,
    accept(socket, peer, webSocket) {
      const stream = new WebSocketStream({
        socket,
        side: "server",
        decoder: codecs.request,
        encoder: codecs.response,
        maxMessageBytes: maxRequestBytes,
        messageLimit: requestLimit,
        peerName: `the client at ${peer.address}`,
        openAccount: (holder) => options.buffered.open(connectionBytes(peer.address), holder),
      });
      webSocket.once("close", options.count());
      options.onStream(Object.assign(stream, { peer }));
    },
  };
  const acceptors: [string, Acceptor][] = [...options.routes, [processPath, processes]];
  const routes = new Map(
    acceptors.map(([path, route]) => {
      const server = new WebSocketServer({
        ...wsOptions,
        noServer: true,
        clientTracking: false,
        maxPayload: route.maxMessageBytes,
        WebSocket: PatientWebSocket,
        handleProtocols: (offered) => (offered.has(route.subprotocol) ? route.subprotocol : false),
      });
      server.on("wsClientError", (error, network) => {
        onError(error);
        network.destroy();
      });
      return [path, { route, server }] as const;
    }),
  );
  const open = new Set<Pings>();
  const timer =
    options.pingIntervalMs > 0
      ? setInterval(() => {
          for (const pings of open) {
            pings.ping();
          }
        }, options.pingIntervalMs).unref()
      : undefined;

  /** @throws DmEnvRpcError if the WebSocket is refused. */
  const peerOf = (
    webSocket: WebSocket,
    { subprotocol }: Acceptor,
    request: IncomingMessage,
    from: HttpPeer,
  ): Peer => {
    if (!options.isAllowed(request.headers)) {
      throw new DmEnvRpcError("PERMISSION_DENIED", refusedOrigin(request.headers));
    }
    if (webSocket.protocol !== subprotocol) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `the sub-protocol is missing: expected "${subprotocol}" in Sec-WebSocket-Protocol; offer it`,
      );
    }
    const full = options.refusal(from.address);
    if (full !== undefined) {
      throw full;
    }
    const offered = request.headers["sec-websocket-protocol"]?.split(/\s*,\s*/) ?? [];
    // Headers that a proxy or the platform sets override the metadata of a page.
    const metadata = new Map([...offeredMetadata(offered), ...metadataOf(request.headers)]);
    return { ...from, metadata };
  };

  const accept = (
    webSocket: PatientWebSocket,
    route: Acceptor,
    request: IncomingMessage,
    network: Duplex,
    from: HttpPeer,
  ): void => {
    const { maxMessageBytes, arriving } = route;
    const socket = wsSocket({
      webSocket,
      network,
      side: "server",
      maxMessageBytes,
      pool: options.pool,
      arriving,
      turns: arriving && { share: options.checks, key: turnKeyOf(from.address) },
    });
    let peer: Peer;
    try {
      peer = peerOf(webSocket, route, request, from);
    } catch (thrown) {
      const error = toError(thrown);
      onError(error);
      webSocket.on("error", () => {}); // The socket is already being closed.
      socket.sendText(statusMessageOf(error));
      socket.close(closeCodeOf(error), closeReasonOf(error));
      socket.terminateSoon();
      return;
    }
    const pings = new Pings(webSocket, network);
    open.add(pings);
    const uncount = options.byNetwork.add(from.address);
    webSocket.once("close", () => {
      open.delete(pings);
      uncount();
    });
    route.accept(socket, peer, webSocket);
  };

  return {
    upgrade(request, network, head, from) {
      const found = routes.get(request.url?.split("?", 1)[0] ?? "");
      if (found === undefined) {
        const body = `${unknownPath(request.url)}\n`;
        network.on("error", () => network.destroy());
        network.end(
          `HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
          () => network.destroy(),
        );
        return;
      }
      found.server.handleUpgrade(request, network, head, (webSocket) =>
        accept(webSocket, found.route, request, network, from),
      );
    },
    stop: () => clearInterval(timer),
  };
}
