// SPDX-License-Identifier: Apache-2.0
import { constants } from "node:http2";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { codeOfReset, nameOfReset } from "../http2/grpc-status.ts";
import type { Address } from "../stream/address.ts";

/** Creates the error for a connection that could not be made, with its cause and remedy. */
export function connectFailure(address: Address, cause: Error | undefined): DmEnvRpcError {
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
  const at = address.authority;
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
      return `the host ${address.host} is unknown; check the name in ${at}`;
    case "ETIMEDOUT":
    case "EHOSTUNREACH":
    case "ENETUNREACH":
      return `${at} cannot be reached (${code}); check the address and the network`;
    case "ERR_SSL_WRONG_VERSION_NUMBER":
    case "ERR_SSL_PACKET_LENGTH_TOO_LONG":
      return `expected TLS on ${at}, received plain text; use http://${at} if the server has no TLS`;
    case "ERR_TLS_CERT_ALTNAME_INVALID":
      return `the certificate of ${at} is for another name; use that name, or set tls.serverName (${cause?.message})`;
    default:
  }
  if (isCertificateError(code)) {
    return `the certificate of ${at} is not trusted (${code}); pass the authority that signed it as tls.ca`;
  }
  if (code !== undefined && /^ERR_SSL_.*ALERT/.test(code)) {
    return `${at} refused the TLS handshake (${cause?.message}); it may ask for a client certificate: pass tls.cert and tls.key`;
  }
  const received = cause === undefined ? "the connection was closed" : cause.message;
  return address.secure
    ? `expected an HTTP/2 server on ${at}, received: ${received}; check the address`
    : `expected an HTTP/2 server on ${at}, received: ${received}; check the address, and use https://${at} if it serves TLS`;
}

function codeOf(cause: Error | undefined): string | undefined {
  return cause !== undefined && "code" in cause ? String(cause.code) : undefined;
}

function isCertificateError(code: string | undefined): boolean {
  return (
    code !== undefined &&
    (code.startsWith("CERT_") || code.includes("SELF_SIGNED") || code.startsWith("UNABLE_TO_"))
  );
}
