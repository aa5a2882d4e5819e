// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from "node:fs";
import protobuf from "protobufjs";

/** protobufjs's own encode and decode of one message type. */
export interface Protobufjs {
  encode(message: object): Uint8Array;
  decode(bytes: Uint8Array): object;
  /** Converts bytes to the form of a message that `encode` accepts. */
  readonly type: protobuf.Type;
}

const protoRoot = new URL("../../../../proto/", import.meta.url);

/**
 * Returns protobufjs's type of a message, whose encode and decode are the functions that `pbjs -t
 * static` would generate, compiled at first use.
 */
export function loadProtobufjs(typeName: string): Protobufjs {
  const root = new protobuf.Root();
  root.addJSON(protobuf.common.get("google/protobuf/any.proto")?.nested ?? {});
  for (const path of ["google/rpc/status.proto", "dm_env_rpc/v1/dm_env_rpc.proto"]) {
    protobuf.parse(readFileSync(new URL(path, protoRoot), "utf8"), root, { keepCase: false });
  }
  const type = root.resolveAll().lookupType(typeName);
  return {
    encode: (message) => type.encode(message).finish(),
    decode: (bytes) => type.decode(bytes),
    type,
  };
}
