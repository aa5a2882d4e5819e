// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/** The error of a message above `maxMessageBytes`. */
export function tooLarge(received: string, maxMessageBytes: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `message too large: expected at most ${maxMessageBytes} bytes, received ${received}; send less in one message or raise maxMessageBytes`,
    { origin: "client" },
  );
}
