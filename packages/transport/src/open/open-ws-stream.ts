// SPDX-License-Identifier: Apache-2.0
import type { Duplex } from "node:stream";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { createBufferPool } from "../assembly/buffer-pool.ts";
import { codeOfHttpStatus } from "../http2/grpc-status.ts";
import { defaultMaxMessageBytes } from "../limits/limits.ts";
import type { Address } from "../stream/address.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { processPath } from "../stream/process-path.ts";
import { Pings } from "../websocket/pings.ts";
import { subprotocol } from "../websocket/protocol.ts";
import { type Socket, WebSocketStream } from "../websocket/websocket-stream.ts";
import { PatientWebSocket, wsOptions, wsSocket } from "../websocket/ws-socket.ts";
import { checkedHost } from "./checked-host.ts";
import { probeAfterMs, tlsOptions } from "./client-connection.ts";
import { connectFailure } from "./connect-failure.ts";
import { connecting } from "./connecting.ts";
import { checkedMetadata } from "./metadata.ts";
import type { OpenOptions } from "./open-options.ts";
import { type OpenedStream, openedStream } from "./opened-stream.ts";

/** Maximum memory that a WebSocket keeps for the first bytes of later messages. */
const pooledBytes = 1024 * 1024;

/** An open WebSocket. */
interface Opened {
  readonly webSocket: PatientWebSocket;
  /** Network connection of the WebSocket. */
  readonly network: Duplex;
  readonly socket: Socket;
  /** Resolves when the WebSocket is closed. */
  readonly closed: Promise<void>;
}

/**
 * Opens a Process stream over a WebSocket, with the library `ws`.
 *
 * @throws DmEnvRpcError as `openStream` does.
 */
export async function openWebSocketStream(
  address: Address,
  options: OpenOptions = {},
): Promise<OpenedStream> {
  const { codecs = defaultCodecs(), maxMessageBytes = defaultMaxMessageBytes } = options;
  const headers = {
    "user-agent": "dm-env-rpc-typescript",
    ...checkedMetadata(options.metadata),
  };
  const { webSocket, network, socket, closed } = await connecting<Opened>(
    address,
    options,
    (attempt) => {
      const webSocket = new PatientWebSocket(`${address.url}${processPath}`, [subprotocol], {
        ...wsOptions,
        ...(address.secure ? tlsOptions(address, options.tls ?? {}) : {}),
        ...checkedHost(address, options.checkIp),
        headers,
        maxPayload: maxMessageBytes,
      });
      const closed = new Promise<void>((resolve) => webSocket.once("close", () => resolve()));
      // `ws` also emits an error when a connecting WebSocket is closed.
      webSocket.on("error", (error) => attempt.fail(connectFailure(address, error)));
      webSocket.once("unexpected-response", (_request, { statusCode = 0, statusMessage }) =>
        attempt.fail(
          new DmEnvRpcError(
            codeOfHttpStatus(statusCode),
            `expected a WebSocket at ${address.authority}, received HTTP status ${statusCode} (${statusMessage}); check the address, and that the server and any proxies in front of it accept WebSockets`,
            { origin: "connection" },
          ),
        ),
      );
      webSocket.once("upgrade", ({ socket: network }) => {
        network.setKeepAlive(true, probeAfterMs);
        webSocket.once("open", () => {
          const socket = wsSocket({
            webSocket,
            network,
            side: "client",
            maxMessageBytes,
            pool: createBufferPool(pooledBytes),
          });
          attempt.succeed({ webSocket, network, socket, closed });
        });
      });
      return () => webSocket.terminate();
    },
  );
  const { pingIntervalMs = 0 } = options;
  if (pingIntervalMs > 0) {
    const pings = new Pings(webSocket, network);
    const timer = setInterval(() => pings.ping(), pingIntervalMs).unref();
    webSocket.once("close", () => clearInterval(timer));
  }
  const stream = new WebSocketStream({
    socket,
    side: "client",
    decoder: codecs.response,
    encoder: codecs.request,
    maxMessageBytes,
    peerName: `the server at ${address.authority}`,
  });
  return openedStream(stream, address, () => closed);
}
