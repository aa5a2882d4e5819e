// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http2";
import type { Peer } from "./message-stream.ts";
import type { ServerConnection } from "./server-connections.ts";

/** The path of Process, the one call that has a framing of its own here. */
export const processPath: string = "/dm_env_rpc.v1.Environment/Process";

/** Whether a request is a gRPC call of Process whose messages are protobuf. */
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

/** Who calls; the metadata is put together when it is first asked for. */
export function peerOf(connection: ServerConnection, headers: IncomingHttpHeaders): Peer {
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

/** The headers of a call without those that are the protocol's own. */
function metadataOf(headers: IncomingHttpHeaders): ReadonlyMap<string, string> {
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
    name === "te" ||
    name === "content-type"
  );
}
