// SPDX-License-Identifier: Apache-2.0
import type { DescMessage } from "@bufbuild/protobuf";
import type { ReadOptions } from "./primitives/read-options.ts";
import type { Reader } from "./primitives/reader.ts";
import { fieldsOf } from "./scan/message-fields.ts";
import { Walk } from "./scan/walk.ts";

/** Estimates the work of decoding a message with the generated code, before the message is decoded. */
export class MessageScanner {
  readonly #walk: Walk;

  /** @param reader The reader whose budget the messages are charged to. */
  constructor(reader: Reader, options: ReadOptions) {
    this.#walk = new Walk(reader, options);
  }

  /** Resets the count of entries. */
  clear(): void {
    this.#walk.entries = 0;
  }

  /**
   * Charges the message between the reader's position and end to the reader's work budget, and counts the message's
   * entries.
   *
   * @throws TensorError `limit`, or `malformed` with the offset.
   */
  scan(schema: DescMessage): void {
    this.#walk.whole(fieldsOf(schema));
  }
}
