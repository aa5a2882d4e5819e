// SPDX-License-Identifier: Apache-2.0
import { type DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/** Returns a DmEnvRpcError; fails the test for anything else. */
export function errorOf(value: unknown): DmEnvRpcError {
  if (isDmEnvRpcError(value)) {
    return value;
  }
  throw new Error("expected a DmEnvRpcError", { cause: value });
}
