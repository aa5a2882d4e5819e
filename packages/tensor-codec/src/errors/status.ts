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

/** Returns the name of the status code with a number; UNKNOWN if no code has the number. */
export function statusCodeOf(number: number): StatusCode {
  return names.get(number) ?? "UNKNOWN";
}

/**
 * The party that an error comes from:
 *
 * - `server`: the server refused the request, or ended the stream with a status.
 * - `client`: the caller misused the API, exceeded a limit of its own process, or stopped waiting.
 * - `connection`: no answer will arrive, because the server cannot be reached, the stream was lost, or the
 *   peer broke the protocol.
 */
export type ErrorOrigin = "server" | "client" | "connection";

/** Options of a DmEnvRpcError. */
export interface DmEnvRpcErrorOptions extends ErrorOptions {
  /** The party that the error comes from. Default `server`, which is right in a world's code. */
  readonly origin?: ErrorOrigin | undefined;
  /** Messages attached to the status, each packed as an Any. */
  readonly details?: readonly Any[] | undefined;
}

/**
 * An error with a status code (overview.md, "Errors"). Servers throw it to refuse a request, and failed
 * calls of a client reject with it. The error for a value that does not fit its spec is a `TensorError`
 * instead. `origin` tells a refusal by the server, a misuse by the caller and a lost connection apart.
 */
export class DmEnvRpcError extends Error {
  override readonly name = "DmEnvRpcError";
  readonly code: StatusCode;
  readonly origin: ErrorOrigin;
  /** Messages that the server attached, each packed as an Any. */
  readonly details: readonly Any[];

  constructor(code: StatusCode, message: string, options: DmEnvRpcErrorOptions = {}) {
    const { origin = "server", details = [], ...rest } = options;
    super(message, rest);
    this.code = code;
    this.origin = origin;
    this.details = details;
  }
}

/** Returns true for a DmEnvRpcError of any copy of this package. */
export function isDmEnvRpcError(value: unknown): value is DmEnvRpcError {
  return value instanceof Error && value.name === "DmEnvRpcError" && "code" in value;
}

/** Packs an error into its Status message. */
export function packStatus(error: DmEnvRpcError): Status {
  return create(StatusSchema, {
    code: statusCodes[error.code],
    message: error.message,
    details: [...error.details],
  });
}

/** Unpacks the error in a Status. A number without a status code becomes UNKNOWN. */
export function unpackStatus(status: Status): DmEnvRpcError {
  return new DmEnvRpcError(statusCodeOf(status.code), status.message, {
    details: status.details,
  });
}
