// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";
import { type Status, StatusSchema } from "@dm-env-rpc/protocol/status";

/** The codes of google.rpc.Code, by name. */
export const statusCodes = {
  OK: 0,
  CANCELLED: 1,
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  ABORTED: 10,
  OUT_OF_RANGE: 11,
  UNIMPLEMENTED: 12,
  INTERNAL: 13,
  UNAVAILABLE: 14,
  DATA_LOSS: 15,
  UNAUTHENTICATED: 16,
} as const;

/** Name of a status code. */
export type StatusCode = keyof typeof statusCodes;

const names = new Map(
  Object.entries(statusCodes).map(([name, code]) => [code as number, name as StatusCode]),
);

/**
 * An error in the protocol: a request was answered with a Status instead of a
 * response (overview.md, "Errors"). The stream lives on unless it says otherwise.
 */
export class DmEnvRpcError extends Error {
  override readonly name = "DmEnvRpcError";
  readonly code: StatusCode;
  /** What the server attached, packed. */
  readonly details: readonly Any[];

  constructor(
    code: StatusCode,
    message: string,
    options: ErrorOptions & { details?: readonly Any[] } = {},
  ) {
    super(message, options);
    this.code = code;
    this.details = options.details ?? [];
  }
}

/** Whether a value is a DmEnvRpcError, of this copy of the package or of another. */
export function isDmEnvRpcError(value: unknown): value is DmEnvRpcError {
  return value instanceof Error && value.name === "DmEnvRpcError" && "code" in value;
}

/** The Status that says an error on the wire. */
export function packStatus(error: DmEnvRpcError): Status {
  return create(StatusSchema, {
    code: statusCodes[error.code],
    message: error.message,
    details: [...error.details],
  });
}

/** The error that a Status says; codes that nobody defined become UNKNOWN. */
export function unpackStatus(status: Status): DmEnvRpcError {
  return new DmEnvRpcError(names.get(status.code) ?? "UNKNOWN", status.message, {
    details: status.details,
  });
}
