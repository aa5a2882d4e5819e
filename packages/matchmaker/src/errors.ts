// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf, toConnectError as statusError } from "@dm-env-rpc/transport/internal";
import { isStoreError } from "./store/store.ts";

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

/** Shortens a text to 100 characters for an error. */
export function shorten(text: string): string {
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`;
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

/** Maps an error to the error that the caller receives. */
export function toConnectError(error: unknown): ConnectError {
  if (error instanceof ConnectError || isDmEnvRpcError(error)) {
    return statusError(error);
  }
  if (isStoreError(error, "full")) {
    return overloaded(error.message, { cause: error });
  }
  if (isStoreError(error)) {
    return new ConnectError(
      `the matchmaker cannot reach its store (${error.message}); try again`,
      Code.Unavailable,
      undefined,
      [],
      error,
    );
  }
  return new ConnectError(
    `the matchmaker failed: ${messageOf(error)}`,
    Code.Internal,
    undefined,
    [],
    error,
  );
}
