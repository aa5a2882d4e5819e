// SPDX-License-Identifier: Apache-2.0
import { fromBinary, type Message, type Registry, toBinary } from "@bufbuild/protobuf";
import type { Any } from "@bufbuild/protobuf/wkt";

// `@bufbuild/protobuf/wkt` has both functions, but imports the descriptors of every well-known type:
// 12 KB more for a page, compressed.

/** Packs a message as an Any; undefined if the registry lacks its type. */
export function packAny(message: Message, registry: Registry | undefined): Any | undefined {
  const schema = registry?.getMessage(message.$typeName);
  return (
    schema && {
      $typeName: "google.protobuf.Any",
      typeUrl: `type.googleapis.com/${message.$typeName}`,
      value: toBinary(schema, message),
    }
  );
}

/** Unpacks the message in an Any; undefined if the registry lacks its type. */
export function unpackAny({ typeUrl, value }: Any, registry: Registry): Message | undefined {
  const schema = registry.getMessage(typeUrl.slice(typeUrl.lastIndexOf("/") + 1));
  return schema && fromBinary(schema, value);
}
