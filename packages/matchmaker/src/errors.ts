// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { messageOf, toConnectError as statusError } from "@dm-env-rpc/transport/internal";
import { isStoreError } from "./store/store.ts";

/** The error of an argument that cannot be right. */
export function invalid(what: string, expected: string, received: string): DmEnvRpcError {
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `${what}: expected ${expected}, received ${received}`,
  );
}

/** The error of a name that nothing has. */
export function notFound(what: string, id: string, remedy: string): DmEnvRpcError {
  return new DmEnvRpcError("NOT_FOUND", `there is no ${what} "${shorten(id)}"; ${remedy}`);
}

/** A text that may be anything, for an error. */
export function shorten(text: string): string {
  return text.length <= 100 ? text : `${text.slice(0, 100)}…`;
}

/** Seconds after which a caller that was refused for want of room may ask again. */
const defaultRetryAfterS = 5;

/** The error of a call that may succeed later: it says when, in the metadata `retry-after`, in seconds. */
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

/** The error that a caller of a service gets. */
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
