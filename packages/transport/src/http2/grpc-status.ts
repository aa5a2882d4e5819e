// SPDX-License-Identifier: Apache-2.0
import { constants, type IncomingHttpHeaders } from "node:http2";
import { findTrailerError } from "@connectrpc/connect/protocol-grpc";
import { DmEnvRpcError, type StatusCode } from "@dm-env-rpc/tensor-codec";
import { statusCodeOf } from "@dm-env-rpc/tensor-codec/proto";
import { fromConnectError, toConnectError } from "../internal/connect-errors.ts";

/** Maximum length of a grpc-message that is sent, in characters. Trailers must fit a peer's limit on headers. */
const maxStatusMessageLength = 4096;

type Trailers = Readonly<Record<string, string>>;

const ok: Trailers = Object.freeze({ "grpc-status": "0" });

/** The trailers of errors, kept because the refusals of a flood share one error. */
const knownTrailers = new WeakMap<Error, Trailers>();

/** Returns the trailers that end a call. Without an error, the status is OK. */
export function trailersOf(error: Error | undefined): Trailers {
  if (error === undefined) {
    return ok;
  }
  let known = knownTrailers.get(error);
  if (known === undefined) {
    const { code, rawMessage, metadata } = toConnectError(error);
    known = Object.freeze({
      ...Object.fromEntries(metadata),
      "grpc-status": String(code),
      "grpc-message": percentEncode(rawMessage.slice(0, maxStatusMessageLength)),
    });
    knownTrailers.set(error, known);
  }
  return known;
}

/**
 * Returns the error in a call's trailers; undefined for the status OK. Trailers without a status are an error, too.
 */
export function errorInTrailers(trailers: IncomingHttpHeaders): DmEnvRpcError | undefined {
  const status = trailers["grpc-status"];
  if (status === undefined) {
    return new DmEnvRpcError(
      "UNAVAILABLE",
      "expected trailers with a grpc-status, received none; the server ended the stream abnormally",
      { origin: "connection" },
    );
  }
  if (status === "0") {
    return undefined;
  }
  const headers = new Headers();
  for (const [name, value] of Object.entries(trailers)) {
    if (value !== undefined && !name.startsWith(":")) {
      headers.set(name, Array.isArray(value) ? value.join(", ") : value);
    }
  }
  try {
    const error = findTrailerError(headers);
    return error && fromConnectError(error, "server");
  } catch {
    // The message is not percent-encoded correctly; the code is still valid.
    const code = statusCodeOf(Number(status));
    return new DmEnvRpcError(code, String(trailers["grpc-message"] ?? ""));
  }
}

/** Maps an HTTP/2 error code to a gRPC status code, as gRPC specifies. */
export function codeOfReset(rstCode: number): StatusCode {
  switch (rstCode) {
    case constants.NGHTTP2_REFUSED_STREAM:
      return "UNAVAILABLE";
    case constants.NGHTTP2_CANCEL:
      return "CANCELLED";
    case constants.NGHTTP2_ENHANCE_YOUR_CALM:
      return "RESOURCE_EXHAUSTED";
    case constants.NGHTTP2_INADEQUATE_SECURITY:
      return "PERMISSION_DENIED";
    default:
      return "INTERNAL";
  }
}

/** Maps an error to the closest HTTP/2 error code, for calls whose status cannot be sent. */
export function resetOf(error: Error): number {
  switch (statusCodeOf(toConnectError(error).code)) {
    case "CANCELLED":
    case "DEADLINE_EXCEEDED":
      return constants.NGHTTP2_CANCEL;
    case "RESOURCE_EXHAUSTED":
      return constants.NGHTTP2_ENHANCE_YOUR_CALM;
    case "PERMISSION_DENIED":
      return constants.NGHTTP2_INADEQUATE_SECURITY;
    case "UNAVAILABLE":
      return constants.NGHTTP2_REFUSED_STREAM;
    default:
      return constants.NGHTTP2_INTERNAL_ERROR;
  }
}

/** Returns the name of an HTTP/2 error code, for error messages. */
export function nameOfReset(rstCode: number): string {
  const name = Object.entries(constants).find(
    ([key, value]) => value === rstCode && resetNames.has(key),
  );
  return name?.[0].slice("NGHTTP2_".length) ?? `code ${rstCode}`;
}

const resetNames: ReadonlySet<string> = new Set([
  "NGHTTP2_NO_ERROR",
  "NGHTTP2_PROTOCOL_ERROR",
  "NGHTTP2_INTERNAL_ERROR",
  "NGHTTP2_FLOW_CONTROL_ERROR",
  "NGHTTP2_SETTINGS_TIMEOUT",
  "NGHTTP2_STREAM_CLOSED",
  "NGHTTP2_FRAME_SIZE_ERROR",
  "NGHTTP2_REFUSED_STREAM",
  "NGHTTP2_CANCEL",
  "NGHTTP2_COMPRESSION_ERROR",
  "NGHTTP2_CONNECT_ERROR",
  "NGHTTP2_ENHANCE_YOUR_CALM",
  "NGHTTP2_INADEQUATE_SECURITY",
  "NGHTTP2_HTTP_1_1_REQUIRED",
]);

/** Maps the status of a plain HTTP response to a gRPC status code, as gRPC specifies. */
export function codeOfHttpStatus(status: number): StatusCode {
  switch (status) {
    case 400:
      return "INTERNAL";
    case 401:
      return "UNAUTHENTICATED";
    case 403:
      return "PERMISSION_DENIED";
    case 404:
      return "UNIMPLEMENTED";
    case 429:
    case 502:
    case 503:
    case 504:
      return "UNAVAILABLE";
    default:
      return "UNKNOWN";
  }
}

/** Percent-encodes the UTF-8 bytes of "%" and of everything except printable ASCII. */
function percentEncode(text: string): string {
  return text.replace(/[^\x20-\x24\x26-\x7e]+/gu, (run) =>
    Array.from(
      Buffer.from(run, "utf8"),
      (byte) => `%${byte.toString(16).toUpperCase().padStart(2, "0")}`,
    ).join(""),
  );
}
