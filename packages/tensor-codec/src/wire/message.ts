// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, fromBinary, type MessageShape } from "@bufbuild/protobuf";
import type { Limits } from "../errors/limits.ts";
import { knownFieldsOnly } from "./envelope.ts";
import { MessageScanner } from "./message-scanner.ts";
import { readOptionsOf } from "./primitives/read-options.ts";
import { Reader } from "./primitives/reader.ts";

/**
 * Decodes a message of a peer, such as an extension's, within the limits of messages other than
 * steps. Unknown fields are dropped.
 *
 * @throws TensorError `limit`, or `malformed` with the offset.
 * @throws Error of the generated code for bytes that are not a message of the schema.
 */
export function decodeMessage<T extends DescMessage>(
  schema: T,
  bytes: Uint8Array,
  limits: Limits = {},
): MessageShape<T> {
  const options = readOptionsOf(limits);
  const reader = new Reader(options);
  reader.open(bytes, 0, bytes.length);
  new MessageScanner(reader, options).scan(schema);
  return fromBinary(schema, bytes, knownFieldsOnly);
}
