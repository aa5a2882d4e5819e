// SPDX-License-Identifier: Apache-2.0
import type { ClientRequest, IncomingMessage } from "node:http";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { WebSocket } from "ws";
import { codeOfHttpStatus } from "../http2/grpc-status.ts";
import { maxTimeoutMs } from "../internal/time-source.ts";
import { defaultMaxMessageBytes } from "../limits/limits.ts";
import type { Address } from "../stream/address.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { processPath } from "../stream/process-path.ts";
import { subprotocol } from "../websocket/protocol.ts";
import { WebSocketStream } from "../websocket/websocket-stream.ts";
import { maxPayloadFor, wsOptions, wsSocket } from "../websocket/ws-socket.ts";
import { type ConnectionOptions, tlsOptions } from "./client-connection.ts";
import { connectFailure } from "./connect-failure.ts";
import { checkedMetadata } from "./metadata.ts";
import { opened } from "./opened.ts";
import type { OpenedStream, OpenOptions } from "./opened-stream.ts";

/**
 * Opens a Process stream over a WebSocket, by the library `ws`.
 *
 * @throws DmEnvRpcError as `openStream` does.
 */
export async function openWebSocketStream(
  address: Address,
  options: OpenOptions = {},
): Promise<OpenedStream> {
  const { codecs = defaultCodecs(), maxMessageBytes = defaultMaxMessageBytes } = options;
  const webSocket = new WebSocket(`${address.url}${processPath}`, [subprotocol], {
    ...wsOptions,
    ...(address.secure ? tlsOptions(address, options.tls ?? {}) : {}),
    headers: { "user-agent": "dm-env-rpc-typescript", ...checkedMetadata(options.metadata) },
    maxPayload: maxPayloadFor(maxMessageBytes),
  });
  const closed = new Promise<void>((resolve) => webSocket.once("close", () => resolve()));
  const network = await established(webSocket, address, options);
  const stop = keepAlive(webSocket, options.pingIntervalMs ?? 0);
  webSocket.once("close", stop);
  const stream = new WebSocketStream({
    socket: wsSocket(webSocket, network),
    side: "client",
    decoder: codecs.response,
    encoder: codecs.request,
    maxMessageBytes,
    peerName: `the server at ${address.authority}`,
  });
  return opened(stream, address.authority, closed);
}

/** Resolves with the connection below, once the WebSocket is open. */
function established(
  webSocket: WebSocket,
  address: Address,
  { connectTimeoutMs = 10_000, signal }: ConnectionOptions,
): Promise<IncomingMessage["socket"]> {
  return new Promise((resolve, reject) => {
    const giveUp = (error: DmEnvRpcError): void => {
      settle();
      webSocket.on("error", () => {}); // Closing what is not open yet is an error of the library's.
      webSocket.terminate();
      reject(error);
    };
    const onAbort = (): void =>
      giveUp(
        new DmEnvRpcError("CANCELLED", `connecting to ${address.authority} was aborted`, {
          origin: "client",
          cause: signal?.reason,
        }),
      );
    const onError = (error: Error): void => giveUp(connectFailure(address, error));
    const onRefused = (_request: ClientRequest, response: IncomingMessage): void => {
      const { statusCode = 0, statusMessage } = response;
      giveUp(
        new DmEnvRpcError(
          codeOfHttpStatus(statusCode),
          `expected a WebSocket at ${address.authority}, received HTTP status ${statusCode} (${statusMessage}); check the address, and that the server and the proxies before it take WebSockets`,
          { origin: "connection" },
        ),
      );
    };
    const onUpgrade = ({ socket }: IncomingMessage): void => {
      webSocket.once("open", () => {
        settle();
        resolve(socket);
      });
    };
    const timer = setTimeout(
      () =>
        giveUp(
          new DmEnvRpcError(
            "DEADLINE_EXCEEDED",
            `${address.authority} did not answer within ${connectTimeoutMs} ms; check the address, or raise connectTimeoutMs`,
            { origin: "connection" },
          ),
        ),
      Math.min(connectTimeoutMs, maxTimeoutMs),
    );
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      webSocket.off("error", onError);
      webSocket.off("unexpected-response", onRefused);
    };
    webSocket.once("error", onError);
    webSocket.once("unexpected-response", onRefused);
    webSocket.once("upgrade", onUpgrade);
    if (signal?.aborted) {
      onAbort();
    } else {
      signal?.addEventListener("abort", onAbort, { once: true });
    }
  });
}

/** Pings the server, and gives the connection up when a ping is unanswered for as long. */
function keepAlive(webSocket: WebSocket, intervalMs: number): () => void {
  if (intervalMs <= 0) {
    return () => {};
  }
  let pinged = false;
  webSocket.on("pong", () => {
    pinged = false;
  });
  const timer = setInterval(() => {
    if (pinged && !webSocket.isPaused) {
      // The answer may have arrived while this process was busy: look at the socket first.
      setImmediate(() =>
        setImmediate(() => {
          if (pinged) {
            webSocket.terminate();
          }
        }),
      );
    } else if (webSocket.readyState === WebSocket.OPEN) {
      pinged = true;
      webSocket.ping();
    }
  }, intervalMs).unref();
  return () => clearInterval(timer);
}
