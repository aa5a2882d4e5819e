// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";
import { packStatus } from "@dm-env-rpc/tensor-codec/proto";
import type { ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { messageOf } from "@dm-env-rpc/transport/internal";

/** The error that a client is told: what is the client's fault keeps its code, the rest is INTERNAL. */
export function clientError(error: unknown): DmEnvRpcError {
  if (isDmEnvRpcError(error)) return error;
  if (isTensorError(error)) {
    const code = error.reason === "limit" ? "RESOURCE_EXHAUSTED" : "INVALID_ARGUMENT";
    return new DmEnvRpcError(code, error.message, { cause: error });
  }
  return new DmEnvRpcError("INTERNAL", messageOf(error), { cause: error });
}

/**
 * The same error, for as long as a client may be told it: it holds on to neither its cause nor, as V8 does
 * until a stack is read, to the objects whose methods were on the stack.
 */
export function keepable({ code, message }: DmEnvRpcError): DmEnvRpcError {
  const bare = new DmEnvRpcError(code, message);
  bare.stack = String(bare.stack);
  return bare;
}

/** The response that says an error. */
export function errorResponse(error: unknown): ProcessResponse {
  return { case: "error", value: packStatus(clientError(error)) };
}

/** Answers a request with an error, or with what is made of the result. */
export function answer<T>(
  reply: (response: ProcessResponse) => void,
  result: T | DmEnvRpcError,
  make: (result: T) => ProcessResponse,
): void {
  reply(isDmEnvRpcError(result) ? errorResponse(result) : make(result));
}
