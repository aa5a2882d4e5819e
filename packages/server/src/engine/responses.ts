// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";
import { packStatus } from "@dm-env-rpc/tensor-codec/proto";
import { keepBytes, type ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { isStepRefusal } from "../definition/refuse.ts";
import { publicMessageOf } from "./public-message.ts";

/**
 * Returns the error that a client receives: a refusal keeps its code, any other error is INTERNAL.
 */
export function clientError(error: unknown): DmEnvRpcError {
  if (isDmEnvRpcError(error)) {
    return error;
  }
  if (isStepRefusal(error)) {
    return clientError(error.cause);
  }
  if (isTensorError(error)) {
    const code = error.reason === "limit" ? "RESOURCE_EXHAUSTED" : "INVALID_ARGUMENT";
    return new DmEnvRpcError(code, error.message, { cause: error });
  }
  return new DmEnvRpcError("INTERNAL", publicMessageOf(error), { cause: error });
}

/**
 * Returns a copy of an error that may be stored for long: it references neither the cause nor the
 * objects on the stack, which V8 retains until `stack` is read.
 */
export function keepable({ code, message }: DmEnvRpcError): DmEnvRpcError {
  const bare = new DmEnvRpcError(code, message);
  bare.stack = String(bare.stack);
  return bare;
}

/** Creates the response to a request that failed. */
export function errorResponse(error: unknown): ProcessResponse {
  return { case: "error", value: packStatus(clientError(error)) };
}

/** Responses to errors that many requests share. */
const shared = new WeakMap<DmEnvRpcError, ProcessResponse>();

/** Returns the response to an error that many requests share: the same response each time, which must not be changed. */
export function sharedErrorResponse(error: DmEnvRpcError): ProcessResponse {
  let response = shared.get(error);
  if (response === undefined) {
    response = { case: "error", value: keepBytes(packStatus(error)) };
    shared.set(error, response);
  }
  return response;
}

/** Answers a request with an error, or with the response to a result. */
export function answer<T>(
  reply: (response: ProcessResponse) => void,
  result: T | DmEnvRpcError,
  make: (result: T) => ProcessResponse,
): void {
  reply(isDmEnvRpcError(result) ? errorResponse(result) : make(result));
}
