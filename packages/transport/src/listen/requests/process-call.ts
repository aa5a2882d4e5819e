// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http2";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import {
  type CallProtocol,
  callProtocolOf,
  endsInTrailers,
  jsonProtocolOf,
} from "../../http2/call-protocols.ts";
import { joinHostPort } from "../../stream/address.ts";
import type { Peer } from "../../stream/message-stream.ts";
import { processPath } from "../../stream/process-path.ts";

/**
 * Returns the protocol of a call of Process that this package frames itself; undefined for any other request. Connect's
 * library answers calls of Connect and gRPC-Web with a compression that this package does not support.
 */
export function processProtocolOf(headers: IncomingHttpHeaders): CallProtocol | undefined {
  if (headers[":path"] !== processPath || headers[":method"] !== "POST") {
    return undefined;
  }
  const protocol = callProtocolOf(headers) ?? jsonProtocolOf(headers);
  if (protocol === undefined || endsInTrailers(protocol)) {
    return protocol;
  }
  const encoding = headers[protocol.encodingHeader];
  const isSupported =
    headers["content-encoding"] === undefined &&
    (encoding === undefined || encoding === "identity" || encoding === "gzip");
  return isSupported ? protocol : undefined;
}

/** The peer of an HTTP connection: a `Peer` without the metadata of a call. */
export type HttpPeer = Pick<Peer, "address" | "certificate">;

/** Returns the peer of a socket. */
export function peerOfSocket(socket: Socket): HttpPeer {
  const { remoteAddress, remotePort = 0 } = socket;
  return {
    // Peers of a Unix domain socket have no address.
    address: remoteAddress === undefined ? "unix:" : joinHostPort(remoteAddress, remotePort),
    certificate: certificateOf(socket),
  };
}

/** Returns the peer's verified certificate in DER; undefined if the peer has none. */
function certificateOf(socket: Socket): Uint8Array | undefined {
  if (!(socket instanceof TLSSocket) || !socket.authorized) {
    return undefined;
  }
  const { raw } = socket.getPeerCertificate();
  return raw === undefined ? undefined : new Uint8Array(raw);
}

/** The peer of a call; its metadata is built on first access. */
class CallPeer implements Peer {
  readonly address: string;
  readonly certificate: Uint8Array | undefined;
  readonly #headers: IncomingHttpHeaders;
  #metadata: ReadonlyMap<string, string> | undefined;

  constructor({ address, certificate }: HttpPeer, headers: IncomingHttpHeaders) {
    this.address = address;
    this.certificate = certificate;
    this.#headers = headers;
  }

  get metadata(): ReadonlyMap<string, string> {
    this.#metadata ??= metadataOf(this.#headers);
    return this.#metadata;
  }
}

/** Returns the peer of a call. */
export function peerOf(connection: HttpPeer, headers: IncomingHttpHeaders): Peer {
  return new CallPeer(connection, headers);
}

/** Returns the headers of a call, without the protocol's own headers. */
export function metadataOf(headers: IncomingHttpHeaders): ReadonlyMap<string, string> {
  const metadata = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    if (value === undefined || isReserved(name)) {
      continue;
    }
    metadata.set(name, Array.isArray(value) ? value.join(", ") : value);
  }
  return metadata;
}

function isReserved(name: string): boolean {
  return (
    name.startsWith(":") ||
    name.startsWith("grpc-") ||
    name.startsWith("connect-") ||
    name.startsWith("sec-websocket-") ||
    name === "te" ||
    name === "connection" ||
    name === "upgrade" ||
    name === "content-type"
  );
}
