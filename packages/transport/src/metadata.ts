// SPDX-License-Identifier: Apache-2.0
import { Code, ConnectError } from "@connectrpc/connect";

/** Metadata of a call: names in lower case, values in printable ASCII. */
export type Metadata = ReadonlyMap<string, string> | Readonly<Record<string, string>>;

/**
 * Metadata as headers.
 *
 * @throws ConnectError with Code.InvalidArgument for a name or a value that can not be sent.
 */
export function checkedMetadata(metadata: Metadata | undefined): Record<string, string> {
  const headers: Record<string, string> = {};
  const entries = metadata instanceof Map ? metadata : Object.entries(metadata ?? {});
  for (const [name, value] of entries) {
    if (!/^[a-z0-9_.-]+$/.test(name) || name.startsWith("grpc-") || reserved.has(name)) {
      throw new ConnectError(
        `bad metadata: expected a lower-case name that the protocol does not use itself, got ${JSON.stringify(name)}`,
        Code.InvalidArgument,
      );
    }
    if (!/^[\x20-\x7e]*$/.test(value)) {
      throw new ConnectError(
        `bad metadata: expected printable ASCII for ${name}, got ${JSON.stringify(value)}; encode it, or name it ${name}-bin and send base64`,
        Code.InvalidArgument,
      );
    }
    headers[name] = value;
  }
  return headers;
}

const reserved: ReadonlySet<string> = new Set([
  "connection",
  "content-type",
  "host",
  "te",
  "transfer-encoding",
  "upgrade",
]);
