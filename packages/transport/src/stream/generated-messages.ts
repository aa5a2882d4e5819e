// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import type { MessageCodec } from "@dm-env-rpc/tensor-codec/wire";
import type { UnreadMessage } from "./message-stream.ts";
import { unreadMessage } from "./unread-messages.ts";

/** A generated message, with its size in protobuf. */
export interface Carried<Message> {
  readonly message: Message;
  readonly bytes: number;
}

/**
 * Converts a message of tensor-codec to the generated message of protobuf-es: encodes it, then decodes the bytes.
 *
 * @param check Called with the bytes before they are decoded.
 */
export function toGenerated<T, Desc extends DescMessage>(
  codec: Pick<MessageCodec<T>, "size" | "write">,
  schema: Desc,
  message: T,
  check?: (bytes: Uint8Array) => void,
): Carried<MessageShape<Desc>> {
  const bytes = new Uint8Array(codec.size(message));
  codec.write(message, bytes, 0);
  check?.(bytes);
  // Unknown fields would take far more memory than their bytes.
  return { message: fromBinary(schema, bytes, { readUnknownFields: false }), bytes: bytes.length };
}

/**
 * Converts a generated message, which Connect delivers, to a message of tensor-codec, which is decoded when it is read.
 */
export function fromGenerated<T, Desc extends DescMessage>(
  codec: MessageCodec<T>,
  schema: Desc,
  message: MessageShape<Desc>,
): UnreadMessage<T> {
  return unreadMessage(codec, toBinary(schema, message));
}
