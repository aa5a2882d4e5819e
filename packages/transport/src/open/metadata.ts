// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";

/** Metadata of a call: names in lower case, values in printable ASCII. */
export type Metadata = ReadonlyMap<string, string> | Readonly<Record<string, string>>;

/**
 * Returns metadata as headers.
 *
 * @throws DmEnvRpcError INVALID_ARGUMENT for a name or value that cannot be sent.
 */
export function checkedMetadata(metadata: Metadata | undefined): Record<string, string> {
  const headers: Record<string, string> = {};
  const entries = metadata instanceof Map ? metadata : Object.entries(metadata ?? {});
  for (const [name, value] of entries) {
    if (!/^[a-z0-9_.-]+$/.test(name) || name.startsWith("grpc-") || reserved.has(name)) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `bad metadata: expected a lower-case name that the protocol does not use itself, received ${JSON.stringify(name)}`,
        { origin: "client" },
      );
    }
    if (!/^[\x20-\x7e]*$/.test(value)) {
      throw new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `bad metadata: expected printable ASCII for ${name}, received ${JSON.stringify(value)}; encode it, or name it ${name}-bin and send base64`,
        { origin: "client" },
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
