// SPDX-License-Identifier: Apache-2.0
import { type DescMessage, fromBinary, type MessageShape, toBinary } from "@bufbuild/protobuf";
import { envelope } from "@dm-env-rpc/transport/internal";

/** A format of messages, such as protobuf or JSON. */
export interface MessageFormat {
  /**
   * Decodes a message.
   *
   * @throws Error for bytes that are not a message of the schema.
   */
  read<Desc extends DescMessage>(schema: Desc, bytes: Uint8Array): MessageShape<Desc>;
  /** Encodes a message. */
  write<Desc extends DescMessage>(schema: Desc, message: MessageShape<Desc>): Uint8Array;
}

/** Protobuf. */
export const binaryFormat: MessageFormat = { read: fromBinary, write: toBinary };

/** A response that is encoded once in each format for all its viewers. */
export class SharedMessage<Desc extends DescMessage = DescMessage> {
  readonly message: MessageShape<Desc>;
  readonly #schema: Desc;
  readonly #encoded = new Map<MessageFormat, Uint8Array>();

  constructor(schema: Desc, message: MessageShape<Desc>) {
    this.#schema = schema;
    this.message = message;
  }

  /** Returns the encoded message in its envelope. */
  encoded(format: MessageFormat): Uint8Array {
    let bytes = this.#encoded.get(format);
    if (bytes === undefined) {
      bytes = envelope(format.write(this.#schema, this.message));
      this.#encoded.set(format, bytes);
    }
    return bytes;
  }
}
