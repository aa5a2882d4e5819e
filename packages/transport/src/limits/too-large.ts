// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/** Remedies that name the limit of each side. */
const remedies = {
  server: "send less in one message, or raise the limit of the server",
  client: "request fewer observations at once, or raise the limit of the client",
} as const;

/**
 * Creates the error for a message above a side's limit.
 *
 * @param received Size of the message, as the error prints it.
 * @param limit Name of the limit. Default `maxMessageBytes`.
 */
export function tooLarge(
  side: "client" | "server",
  received: string,
  maxMessageBytes: number,
  limit = "maxMessageBytes",
): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `message too large: expected at most ${maxMessageBytes} bytes, received ${received}; ${remedies[side]} (limit: ${limit})`,
    { origin: "client" },
  );
}
