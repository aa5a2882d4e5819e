// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { maxTimeoutMs } from "../internal/time-source.ts";
import { defaultMaxMessageBytes } from "../limits/limits.ts";
import { type Address, parseAddress } from "../stream/address.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { processPath } from "../stream/process-path.ts";
import { errorOfClose, offeredProtocols } from "../websocket/protocol.ts";
import { webSocket } from "../websocket/web-socket.ts";
import { WebSocketStream } from "../websocket/websocket-stream.ts";
import { checkedMetadata } from "./metadata.ts";
import { opened } from "./opened.ts";
import type { OpenedStream, OpenOptions } from "./opened-stream.ts";

/**
 * Opens a Process stream over the platform's own WebSocket: what `openStream` is in a page.
 *
 * `address` is `ws://host:port` or `wss://host:port`. The metadata goes as a sub-protocol, for a page cannot
 * set headers. Certificates and pings are the platform's: `tls` and `pingIntervalMs` are refused.
 *
 * @throws DmEnvRpcError UNAVAILABLE when no WebSocket is answered there, DEADLINE_EXCEEDED after
 * `connectTimeoutMs`, CANCELLED by the signal, INVALID_ARGUMENT for a bad address or option.
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
  for (const option of ["tls", "pingIntervalMs"] as const) {
    if (options[option] === undefined) {
      continue;
    }
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `the option ${option} is not available here: expected none, because the platform's own WebSocket has it; leave it out`,
      { origin: "client" },
    );
  }
  const socket = new WebSocket(
    `${parsed.url}${processPath}`,
    offeredProtocols(checkedMetadata(options.metadata)),
  );
  const closed = new Promise<void>((resolve) => {
    socket.addEventListener("close", () => resolve(), { once: true });
  });
  await established(socket, parsed, options);
  const stream = new WebSocketStream({
    socket: webSocket(socket),
    side: "client",
    decoder: codecs.response,
    encoder: codecs.request,
    maxMessageBytes,
    peerName: `the server at ${parsed.authority}`,
  });
  return opened(stream, parsed.authority, closed);
}

/** Resolves once the WebSocket is open. */
function established(
  socket: WebSocket,
  address: Address,
  { connectTimeoutMs = 10_000, signal }: OpenOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const giveUp = (error: DmEnvRpcError): void => {
      settle();
      socket.close();
      reject(error);
    };
    const onAbort = (): void =>
      giveUp(
        new DmEnvRpcError("CANCELLED", `connecting to ${address.authority} was aborted`, {
          origin: "client",
          cause: signal?.reason,
        }),
      );
    const onOpen = (): void => {
      settle();
      resolve();
    };
    const onClose = ({ code, reason }: CloseEvent): void => {
      const told =
        code === 1006 ? undefined : errorOfClose("client", address.authority, code, reason);
      giveUp(
        told ??
          new DmEnvRpcError(
            "UNAVAILABLE",
            `could not open a WebSocket to ${address.authority}; check that the server runs there${address.secure ? "" : ", and use wss:// if it serves TLS"} (the platform tells no more)`,
            { origin: "connection" },
          ),
      );
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
      socket.removeEventListener("open", onOpen);
      socket.removeEventListener("close", onClose);
    };
    socket.addEventListener("open", onOpen);
    socket.addEventListener("close", onClose);
    if (signal?.aborted) {
      onAbort();
    } else {
      signal?.addEventListener("abort", onAbort, { once: true });
    }
  });
}
