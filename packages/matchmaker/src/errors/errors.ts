// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { shorten, toConnectError as statusError } from "@dm-env-rpc/transport/internal";
import { isStoreError } from "../store/store.ts";

/** Creates the error for an invalid argument. */
export function invalid(what: string, expected: string, received: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `${what}: expected ${expected}, received ${received}`,
  );
}

/** Creates the error for an unknown name. */
export function notFound(what: string, id: string, remedy: string): DmEnvRpcError {
  return new DmEnvRpcError("NOT_FOUND", `unknown ${what} "${shorten(id)}"; ${remedy}`);
}

/** Delay in seconds before a caller may retry a call that was refused for lack of room. */
const defaultRetryAfterS = 5;

/**
 * Creates the error for a call that may succeed later. Its metadata `retry-after` contains the delay in
 * seconds.
 */
export function overloaded(
  message: string,
  {
    cause,
    retryAfterS = defaultRetryAfterS,
  }: { readonly cause?: unknown | undefined; readonly retryAfterS?: number | undefined } = {},
): ConnectError {
  const metadata = { "retry-after": String(retryAfterS) };
  return new ConnectError(message, Code.ResourceExhausted, metadata, [], cause);
}

/**
 * Returns true for an error of the store or a fault of the matchmaker. Its text is for operators: it may contain
 * addresses, which a caller must not learn.
 */
export function isInternal(error: unknown): boolean {
  return !(error instanceof ConnectError || isDmEnvRpcError(error));
}

/** Maps an error to the error that the caller receives. The text of an internal error is only in its `cause`. */
export function toConnectError(error: unknown): ConnectError {
  if (!isInternal(error)) {
    return statusError(error);
  }
  if (isStoreError(error, "full")) {
    return overloaded(
      "the matchmaker has no memory left for new tickets, servers and profiles; try again later",
      { cause: error },
    );
  }
  const [text, code] = isStoreError(error)
    ? (["the matchmaker cannot reach its store; try again", Code.Unavailable] as const)
    : ([
        "the matchmaker failed; try again, and tell its operator if it fails again",
        Code.Internal,
      ] as const);
  return new ConnectError(text, code, undefined, [], error);
}
