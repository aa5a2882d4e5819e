// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { defaultMaxMessageBytes } from "../limits/limits.ts";
import { parseAddress } from "../stream/address.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { processPath } from "../stream/process-path.ts";
import { offeredProtocols } from "../websocket/protocol.ts";
import { webSocket } from "../websocket/web-socket.ts";
import { WebSocketStream } from "../websocket/websocket-stream.ts";
import { checkedMetadata } from "./metadata.ts";
import type { OpenOptions } from "./open-options.ts";
import { type OpenedStream, openedStream } from "./opened-stream.ts";
import { openPlatformWebSocket } from "./platform-web-socket.ts";

/**
 * Opens a Process stream over the platform's own WebSocket: the `openStream` of a page.
 *
 * `address` is `ws://host:port` or `wss://host:port`. The metadata is sent as a sub-protocol,
 * because a page cannot set headers. The platform manages certificates and pings, so `tls`,
 * `pingIntervalMs` and `checkIp` are refused.
 *
 * @throws DmEnvRpcError UNAVAILABLE if the address does not answer with a WebSocket,
 *   DEADLINE_EXCEEDED after `connectTimeoutMs`, CANCELLED by the signal, INVALID_ARGUMENT for a bad
 *   address or option.
 */
export async function openStream(
  address: string,
  options: OpenOptions = {},
): Promise<OpenedStream> {
  const parsed = parseAddress(address);
  if (parsed.carrier !== "websocket") {
    const at = parsed.path === undefined ? parsed.authority : "host:port";
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `a page cannot stream over HTTP/2: expected an address such as "ws://${at}" or "wss://${at}", received ${JSON.stringify(address)}`,
      { origin: "client" },
    );
  }
  const { codecs = defaultCodecs(), maxMessageBytes = defaultMaxMessageBytes } = options;
  for (const option of ["tls", "pingIntervalMs", "checkIp"] as const) {
    if (options[option] === undefined) {
      continue;
    }
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `option ${option}: expected undefined, because the platform's WebSocket manages it, received a value; leave it out`,
      { origin: "client" },
    );
  }
  const protocols = offeredProtocols(checkedMetadata(options.metadata));
  const socket = await openPlatformWebSocket(parsed, processPath, protocols, options);
  const closed = new Promise<void>((resolve) => {
    socket.addEventListener("close", () => resolve(), { once: true });
  });
  const stream = new WebSocketStream({
    socket: webSocket(socket),
    side: "client",
    decoder: codecs.response,
    encoder: codecs.request,
    maxMessageBytes,
    peerName: `the server at ${parsed.authority}`,
  });
  return openedStream(stream, parsed, () => closed);
}
