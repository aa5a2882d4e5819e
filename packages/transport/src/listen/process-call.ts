// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http2";
import type { Socket } from "node:net";
import { TLSSocket } from "node:tls";
import { joinHostPort } from "../stream/address.ts";
import type { Peer } from "../stream/message-stream.ts";
import { processPath } from "../stream/process-path.ts";

/** Returns true for the headers of a gRPC call of Process with protobuf messages. */
export function isGrpcProcess(headers: IncomingHttpHeaders): boolean {
  if (headers[":path"] !== processPath || headers[":method"] !== "POST") {
    return false;
  }
  const type = headers["content-type"];
  return (
    type === "application/grpc" ||
    type === "application/grpc+proto" ||
    (type !== undefined && /^application\/grpc(\+proto)?\s*;/.test(type))
  );
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

/** Returns the peer of a call; its metadata is built on first access. */
export function peerOf(connection: HttpPeer, headers: IncomingHttpHeaders): Peer {
  let metadata: ReadonlyMap<string, string> | undefined;
  return {
    address: connection.address,
    certificate: connection.certificate,
    get metadata() {
      metadata ??= metadataOf(headers);
      return metadata;
    },
  };
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
