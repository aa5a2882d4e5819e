// SPDX-License-Identifier: Apache-2.0
import { StringValueSchema } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";

/**
 * Detail that distinguishes a taken server id from a role that does not allow the call. Browsers would hide metadata
 * from pages of other origins.
 */
const reason = "server-id-taken";

/** Creates the PERMISSION_DENIED error for a server id that belongs to another caller or another process. */
export function takenId(message: string): ConnectError {
  const detail = { desc: StringValueSchema, value: { value: reason } };
  return new ConnectError(message, Code.PermissionDenied, undefined, [detail]);
}

/** Returns true for an error that `takenId` created, also at the caller. */
export function isTakenId(error: unknown): boolean {
  const details = ConnectError.from(error).findDetails(StringValueSchema);
  return details.some(({ value }) => value === reason);
}
