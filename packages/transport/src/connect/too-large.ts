// SPDX-License-Identifier: Apache-2.0
import { ConnectError } from "@connectrpc/connect";
import type { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { tooLarge } from "../limits/too-large.ts";

/** Connect's error text for a message above its limit, with the size if it is known. */
const connectsWords = /^message size (?:(\d+) )?is larger than configured readMaxBytes (\d+)$/;

/**
 * Maps Connect's error for a message above a side's limit to ours; undefined for any other error.
 */
export function tooLargeForConnect(
  error: unknown,
  side: "client" | "server",
  maxMessageBytes: number,
  limit?: string,
): DmEnvRpcError | undefined {
  const match = error instanceof ConnectError ? connectsWords.exec(error.rawMessage) : null;
  if (match === null || match[2] !== String(maxMessageBytes)) {
    return undefined;
  }
  const received = match[1] === undefined ? "more" : `${match[1]} bytes`;
  return tooLarge(side, received, maxMessageBytes, limit);
}
