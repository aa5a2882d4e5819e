// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Address } from "../stream/address.ts";
import { errorOfClose } from "../websocket/protocol.ts";
import { connecting } from "./connecting.ts";
import type { ConnectionOptions } from "./open-options.ts";

/**
 * Opens a WebSocket of the platform.
 *
 * @throws DmEnvRpcError UNAVAILABLE if the address does not answer with a WebSocket, DEADLINE_EXCEEDED after
 * `connectTimeoutMs`, CANCELLED by the signal; or the status with which the server closes.
 */
export function openPlatformWebSocket(
  address: Address,
  path: string,
  protocols: readonly string[],
  options: ConnectionOptions,
): Promise<WebSocket> {
  return connecting<WebSocket>(address, options, ({ succeed, fail }) => {
    const socket = new WebSocket(`${address.url}${path}`, [...protocols]);
    socket.addEventListener("open", () => succeed(socket), { once: true });
    socket.addEventListener("close", (event) => fail(closedEarly(address, event)), { once: true });
    return () => socket.close();
  });
}

/** Creates the error for a WebSocket that closed before it was open. */
function closedEarly(address: Address, { code, reason }: CloseEvent): DmEnvRpcError {
  const told = code === 1006 ? undefined : errorOfClose("client", address.authority, code, reason);
  return (
    told ??
    new DmEnvRpcError(
      "UNAVAILABLE",
      `could not open a WebSocket to ${address.authority}; check that the server runs there${address.secure ? "" : ", and use wss:// if it serves TLS"} (the platform reports no details)`,
      { origin: "connection" },
    )
  );
}
