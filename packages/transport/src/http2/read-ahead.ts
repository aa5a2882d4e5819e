// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";
import { chunkOverheadBytes, owned } from "../assembly/owned.ts";

/** Options of `ReadAhead`. */
interface ReadAheadOptions {
  /** A chunk is a piece if it has fewer bytes than this. */
  readonly pieceBytes: number;
  /** Called when a chunk has arrived while the consumer is behind; `readableLength` includes the chunk. */
  onGrowth(): void;
  /** Called when a piece has arrived. */
  onPiece(): void;
}

/**
 * Reports the chunks that node:http2 reads while the consumer is behind. A chunk may have any size; together, they fill
 * at most the flow-control window of 4 MiB. Copies the chunks that would keep much more memory alive than their own
 * bytes.
 */
export class ReadAhead {
  readonly #http2: Readable;
  /** Overhead of the chunks that have arrived since the consumer last fell behind, in bytes. */
  #overheadBytes = 0;

  constructor(http2: Readable, options: ReadAheadOptions) {
    this.#http2 = http2;
    const push = http2.push.bind(http2);
    // node:http2 calls this method for each DATA frame, and emits no event for a paused stream.
    http2.push = (chunk: Buffer | null): boolean => {
      if (chunk === null) {
        return push(chunk);
      }
      const isBehind = http2.readableLength > 0;
      this.#overheadBytes = isBehind ? this.#overheadBytes + chunkOverheadBytes : 0;
      const isWanted = push(isBehind ? owned(chunk) : chunk);
      if (isBehind) {
        options.onGrowth();
      }
      if (chunk.length < options.pieceBytes) {
        options.onPiece();
      }
      return isWanted;
    };
  }

  /** Overhead of the chunks that the consumer has not read, in bytes. */
  get overheadBytes(): number {
    return this.#http2.readableLength > 0 ? this.#overheadBytes : 0;
  }
}
