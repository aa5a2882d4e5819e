// SPDX-License-Identifier: Apache-2.0
import { type Code, ConnectError } from "@connectrpc/connect";
import { DmEnvRpcError, type ErrorOrigin, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { statusCodeOf, statusCodes } from "@dm-env-rpc/tensor-codec/proto";

/** Maps an error to Connect's, for a call that Connect answers. */
export function toConnectError(error: unknown): ConnectError {
  if (!isDmEnvRpcError(error)) {
    return ConnectError.from(error);
  }
  const code = statusCodes[error.code] as Code;
  return new ConnectError(error.message, code, undefined, undefined, error);
}

/** Maps an error of Connect's, or any other thrown value, to a DmEnvRpcError. */
export function fromConnectError(thrown: unknown, origin: ErrorOrigin): DmEnvRpcError {
  if (isDmEnvRpcError(thrown)) {
    return thrown;
  }
  const error = ConnectError.from(thrown);
  if (isDmEnvRpcError(error.cause)) {
    return error.cause;
  }
  const details = error.details.flatMap((detail) =>
    "type" in detail
      ? [
          {
            $typeName: "google.protobuf.Any" as const,
            typeUrl: `type.googleapis.com/${detail.type}`,
            value: detail.value,
          },
        ]
      : [],
  );
  return new DmEnvRpcError(statusCodeOf(error.code), error.rawMessage, {
    origin,
    details,
    cause: thrown,
  });
}

/**
 * Maps an error of a unary or streaming call through a gRPC client of Connect's. The origin is `server` for a status
 * that the server sent, `client` if `signal` is aborted, and `connection` otherwise.
 */
export function fromCallError(thrown: unknown, signal?: AbortSignal): DmEnvRpcError {
  if (isDmEnvRpcError(thrown)) {
    return thrown;
  }
  const error = ConnectError.from(thrown);
  if (error.metadata.has("grpc-status")) {
    return fromConnectError(thrown, "server");
  }
  return fromConnectError(thrown, signal?.aborted === true ? "client" : "connection");
}
