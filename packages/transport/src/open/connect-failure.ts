// SPDX-License-Identifier: Apache-2.0
import { constants } from "node:http2";
import { DmEnvRpcError, isDmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { codeOfReset, nameOfReset } from "../http2/grpc-status.ts";
import type { Address } from "../stream/address.ts";

/**
 * Creates the error for a connection that could not be made, with its cause and remedy. The error of `checkIp` is
 * returned unchanged.
 */
export function connectFailure(address: Address, cause: Error | undefined): DmEnvRpcError {
  if (isDmEnvRpcError(cause)) {
    return cause;
  }
  return unavailable(reasonOf(address, cause), cause);
}

/** Creates the error for an established connection that was lost. */
export function lostConnection(address: Address, cause?: Error): DmEnvRpcError {
  const why = cause === undefined ? "" : `: ${cause.message}`;
  return unavailable(`the connection to ${address.authority} was lost${why}`, cause);
}

/** Creates the error for a connection that the server closed with a GOAWAY other than NO_ERROR. */
export function goneAway(
  address: Address,
  code: number,
  data: Uint8Array | undefined,
): DmEnvRpcError {
  const why = data === undefined || data.length === 0 ? "" : `: ${Buffer.from(data).toString()}`;
  return new DmEnvRpcError(
    code === constants.NGHTTP2_ENHANCE_YOUR_CALM ? codeOfReset(code) : "UNAVAILABLE",
    `${address.authority} closed the connection (${nameOfReset(code)}${why})`,
    { origin: "connection" },
  );
}

function unavailable(message: string, cause: Error | undefined): DmEnvRpcError {
  return new DmEnvRpcError("UNAVAILABLE", message, { origin: "connection", cause });
}

function reasonOf(address: Address, cause: Error | undefined): string {
  const { authority: at, host, carrier, secure } = address;
  const [server, plain, encrypted] =
    carrier === "websocket" ? ["a WebSocket", "ws", "wss"] : ["an HTTP/2", "http", "https"];
  const code = codeOf(cause);
  switch (code) {
    case "ECONNREFUSED":
      return `no server listens on ${at}; start the server or check the address`;
    case "ENOENT":
      return `no server listens on ${at}: there is no such file; start the server or check the path`;
    case "EACCES":
      return `${at} cannot be opened: expected a file that this user may write; change its permissions or those of its folder`;
    case "ENOTFOUND":
    case "EAI_AGAIN":
      return `the host ${host} is unknown; check the name in ${at}`;
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return `${at} cannot be reached (${code}); check the address and the network`;
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_PACKET_LENGTH_TOO_LONG":
      return `expected TLS on ${at}, received plain text; use ${plain}://${at} if the server has no TLS`;
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `the certificate of ${at} is for another name; use that name, or set tls.serverName (${cause?.message})`;
    case "CERT_HAS_EXPIRED":
    case "CERT_NOT_YET_VALID":
      return `the certificate of ${at} is not valid at this time (${code}); renew it on the server, or check the clocks of both machines`;
    default:
  }
  if (isCertificateError(code)) {
    return `the certificate of ${at} is not trusted (${code}); pass the authority that signed it as tls.ca`;
  }
  if (code !== undefined && /^ERR_SSL_.*ALERT/.test(code)) {
    return `${at} refused the TLS handshake (${code}); if it requires a client certificate, pass tls.cert and tls.key`;
  }
  const received = cause === undefined ? "the connection was closed" : cause.message;
  const remedy = secure ? "" : `, and use ${encrypted}://${at} if it serves TLS`;
  return `expected ${server} server on ${at}, received: ${received}; check the address${remedy}`;
}

function codeOf(cause: Error | undefined): string | undefined {
  if (cause === undefined || !("code" in cause)) {
    return undefined;
  }
  // If a write waits for the handshake, node:tls reports EPROTO, and OpenSSL's reason only in the message.
  const [, reason] = /:SSL routines:[^:]*:([^:]+):/.exec(cause.message) ?? [];
  return cause.code === "EPROTO" && reason !== undefined
    ? `ERR_SSL_${reason.toUpperCase().replaceAll(" ", "_")}`
    : String(cause.code);
}

function isCertificateError(code: string | undefined): boolean {
  return (
    code !== undefined &&
    (code.startsWith("CERT_") || code.includes("SELF_SIGNED") || code.startsWith("UNABLE_TO_"))
  );
}
