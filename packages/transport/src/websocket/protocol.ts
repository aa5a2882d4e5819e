// SPDX-License-Identifier: Apache-2.0
// Mapping of a Process stream to a WebSocket (docs/protocol-notes.md, "WebSocket"). Runs in every
// JavaScript runtime, because pages use it, too.
import { DmEnvRpcError, type ErrorOrigin } from "@dm-env-rpc/tensor-codec";
import { statusCodeOf, statusCodes } from "@dm-env-rpc/tensor-codec/proto";
import { toConnectError } from "../internal/connect-errors.ts";

/** The sub-protocol that both sides must agree on. In it, each binary message is one protobuf message. */
export const subprotocol = "dm_env_rpc.v1";

/**
 * Prefix of the offered sub-protocol that carries the call's metadata, because pages cannot set
 * headers.
 */
const metadataPrefix = "dm_env_rpc.v1.metadata.";

/** Text message with which a client ends its side, because WebSockets have no half-close. */
export const endMessage = "end";

/** Close code of a stream that ended normally. */
export const normalClosure = 1000;

/** Close code of an endpoint that goes away: a server that closes, or a page that the user leaves. */
const goingAway = 1001;

/** Close code for a message above the receiver's limit (RFC 6455, section 7.4.1). */
export const messageTooBig = 1009;

/** The close code of an error is this number plus the gRPC status code. */
const statusCloseBase = 4000;

/** Size limit of a close reason, in bytes (RFC 6455, section 5.5). */
const maxReasonBytes = 123;

/** Maximum length of an error's message in the text that is sent before a close, in characters. */
const maxStatusMessageLength = 4096;

/** Returns the sub-protocols that a client offers: the protocol itself, and the call's metadata. */
export function offeredProtocols(metadata: Readonly<Record<string, string>>): string[] {
  if (Object.keys(metadata).length === 0) {
    return [subprotocol];
  }
  return [subprotocol, metadataPrefix + toBase64Url(JSON.stringify(metadata))];
}

/**
 * Reads the metadata from the sub-protocols that a client offers.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for metadata that is not base64url of a JSON object of
 *   strings.
 */
export function offeredMetadata(protocols: Iterable<string>): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  for (const protocol of protocols) {
    if (!protocol.startsWith(metadataPrefix)) {
      continue;
    }
    for (const [name, value] of Object.entries(readMetadata(protocol))) {
      if (typeof value !== "string") {
        throw badMetadata(undefined);
      }
      metadata.set(name.toLowerCase(), value);
    }
  }
  return metadata;
}

function readMetadata(protocol: string): object {
  let parsed: unknown;
  try {
    parsed = JSON.parse(fromBase64Url(protocol.slice(metadataPrefix.length)));
  } catch (cause) {
    throw badMetadata(cause);
  }
  if (typeof parsed === "object" && parsed !== null) {
    return parsed;
  }
  throw badMetadata(undefined);
}

function badMetadata(cause: unknown): DmEnvRpcError {
  return new DmEnvRpcError(
    "INVALID_ARGUMENT",
    `malformed metadata: expected "${metadataPrefix}" followed by base64url of a JSON object of strings in Sec-WebSocket-Protocol`,
    { cause },
  );
}

/** Returns the close code of an error. */
export function closeCodeOf(error: Error): number {
  return statusCloseBase + toConnectError(error).code;
}

/** Returns the close reason of an error: its message, cut to the size of a close frame. */
export function closeReasonOf(error: Error): string {
  const message = toConnectError(error).rawMessage;
  const bytes = new Uint8Array(maxReasonBytes);
  const { read } = new TextEncoder().encodeInto(message, bytes);
  return message.slice(0, read);
}

/**
 * Returns the text that is sent before the close with an error, because the error's message may be too long for the
 * close reason.
 */
export function statusMessageOf(error: Error): string {
  const { code, rawMessage } = toConnectError(error);
  return JSON.stringify({ code, message: rawMessage.slice(0, maxStatusMessageLength) });
}

/** Returns the error's message in the text that a server sends before a close; undefined for any other text. */
export function readStatusMessage(text: string): string | undefined {
  try {
    const status: unknown = JSON.parse(text);
    if (typeof status !== "object" || status === null || !("message" in status)) {
      return undefined;
    }
    return typeof status.message === "string" ? status.message : undefined;
  } catch {
    return undefined; // Texts of later versions are ignored.
  }
}

/**
 * Returns the error that a close reports; undefined for a normal end.
 *
 * @param side This side of the stream.
 * @param peer Name of the other side in errors.
 * @param explained The error's message, if the peer sent it before the close.
 */
export function errorOfClose(
  side: "client" | "server",
  peer: string,
  code: number,
  reason: string,
  explained?: string,
): DmEnvRpcError | undefined {
  if (code === normalClosure) {
    return undefined;
  }
  const origin: ErrorOrigin = side === "client" ? "server" : "client";
  const status = code - statusCloseBase;
  if (status > statusCodes.OK && status <= statusCodes.UNAUTHENTICATED) {
    const message = explained ?? reason;
    return new DmEnvRpcError(statusCodeOf(status), message || `${peer} aborted the stream`, {
      origin,
    });
  }
  if (code === messageTooBig) {
    return new DmEnvRpcError(
      "RESOURCE_EXHAUSTED",
      `a message is too large for ${peer}: ${reason || "it is above its limit"}; send less at once`,
      { origin },
    );
  }
  const why = reason === "" ? `close code ${code}` : `close code ${code}: ${reason}`;
  return new DmEnvRpcError(
    "UNAVAILABLE",
    code === goingAway
      ? `${peer} went away (${why})`
      : `the connection to ${peer} was lost (${why})`,
    { origin: "connection" },
  );
}

function toBase64Url(text: string): string {
  const bytes = new TextEncoder().encode(text);
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function fromBase64Url(text: string): string {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return new TextDecoder("utf-8", { fatal: true }).decode(
    Uint8Array.from(binary, (char) => char.charCodeAt(0)),
  );
}
