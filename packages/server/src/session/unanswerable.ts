// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError, isDmEnvRpcError, isTensorError } from "@dm-env-rpc/tensor-codec";
import type { Malformed } from "@dm-env-rpc/tensor-codec/wire";

/** All sessions share it, because a flood of empty messages causes thousands, and each new error costs a stack trace. */
const noPayload = new DmEnvRpcError(
  "INVALID_ARGUMENT",
  "expected a request with a payload, received one without; set one field of EnvironmentRequest.payload",
);

/** Returns the error of a message that is not a request (behaviour 9). */
export function unanswerable(message: Malformed | { readonly case: undefined }): Error {
  if (message.case !== "malformed") {
    return noPayload;
  }
  const { value: error } = message;
  // The transport's own refusal of a message that is too large, or a limit of the codec.
  if (isDmEnvRpcError(error) || (isTensorError(error) && error.reason === "limit")) {
    return error;
  }
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `expected an EnvironmentRequest, received bytes that do not decode: ${error.message}`,
  );
}
