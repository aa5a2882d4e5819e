// SPDX-License-Identifier: Apache-2.0
import { createBufferPool } from "../assembly/buffer-pool.ts";
import { GrpcClientStream } from "../http2/grpc-client-stream.ts";
import { TurnBatch } from "../http2/turn-batch.ts";
import { defaultMaxMessageBytes } from "../limits/limits.ts";
import { type Address, parseAddress, requestUrl } from "../stream/address.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { processPath } from "../stream/process-path.ts";
import { openConnection } from "./client-connection.ts";
import { checkedMetadata, type Metadata } from "./metadata.ts";
import type { OpenOptions } from "./open-options.ts";
import { openStream as openPlatformStream } from "./open-page-stream.ts";
import { type OpenedStream, openedStream } from "./opened-stream.ts";

/** Bun replaces `ws` with its own version, which gives no access to the network connection. */
const isBun = "bun" in process.versions;

/** Bytes of unused buffers for large requests that a stream keeps. */
const pooledBytes = 2 * 1024 * 1024;

/** Shared by all connections of a thread, because they share its event loop. */
const batch = new TurnBatch();

/**
 * Opens a Process stream over a new connection, with gRPC or over a WebSocket.
 *
 * `address` is `host:port` or `http://host:port` (plain text), `https://host:port` or `unix:/path`
 * for gRPC, and `ws://…` or `wss://…` for a WebSocket. Resolves once the server has answered; if
 * the server refuses the call itself, `onClose` reports it.
 *
 * @throws DmEnvRpcError of origin `connection`: UNAVAILABLE if the server cannot be reached,
 *   DEADLINE_EXCEEDED after `connectTimeoutMs`, or the gRPC code of the HTTP status that refuses a
 *   WebSocket; of origin `client`: CANCELLED by the signal,
 *   INVALID_ARGUMENT for a bad address, certificate, key or metadata.
 */
export async function openStream(
  address: string,
  options: OpenOptions = {},
): Promise<OpenedStream> {
  const parsed = parseAddress(address);
  if (parsed.carrier === "websocket") {
    if (isBun) {
      return openPlatformStream(address, options);
    }
    const { openWebSocketStream } = await import("./open-ws-stream.ts");
    return openWebSocketStream(parsed, options);
  }
  const headers = requestHeaders(parsed, options.metadata);
  const connection = await openConnection(parsed, options);
  const codecs = options.codecs ?? defaultCodecs();
  // node:http2's `close(CANCEL)` sends END_STREAM before the reset, which the server reads as a
  // half-close. Only an aborted signal sends a bare reset.
  const controller = new AbortController();
  const http2 = connection.session.request(headers, { signal: controller.signal });
  const stream = new GrpcClientStream({
    http2,
    side: "client",
    decoder: codecs.response,
    encoder: codecs.request,
    maxMessageBytes: options.maxMessageBytes ?? defaultMaxMessageBytes,
    pool: createBufferPool(pooledBytes),
    connectionFailure: connection.failure,
    address: parsed.authority,
    cancel: () => controller.abort(),
    batch,
  });
  http2.once("close", () => connection.close());
  return openedStream(stream, parsed, connection.disconnect);
}

function requestHeaders(address: Address, metadata: Metadata | undefined): Record<string, string> {
  return {
    ":method": "POST",
    ":scheme": address.secure ? "https" : "http",
    ":authority": new URL(requestUrl(address)).host,
    ":path": processPath,
    "content-type": "application/grpc",
    te: "trailers",
    "user-agent": "dm-env-rpc-typescript",
    ...checkedMetadata(metadata),
  };
}
