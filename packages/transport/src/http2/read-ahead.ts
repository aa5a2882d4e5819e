// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";

/**
 * Memory of a chunk in addition to its bytes: an object and an ArrayBuffer. It is counted, so that limits on buffered
 * bytes also bound the memory that a peer takes by sending byte by byte.
 */
export const chunkOverheadBytes = 256;

/**
 * A chunk that is less than this share of its read is copied, because it would keep the memory of the whole read alive.
 */
const pinnedShare = 1 / 4;

/**
 * Returns a copy of a chunk that would keep much more memory alive than its own bytes. Returns any other chunk itself.
 */
export function owned<Chunk extends Uint8Array>(chunk: Chunk): Chunk | Buffer {
  if (chunk.length >= pinnedShare * chunk.buffer.byteLength) {
    return chunk;
  }
  const copy = Buffer.allocUnsafeSlow(chunk.length); // Not `allocUnsafe`, whose memory is part of a larger pool.
  copy.set(chunk);
  return copy;
}

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
  /** Overhead of the chunks that have arrived since the consumer fell behind, in bytes. */
  overheadBytes = 0;

  constructor(http2: Readable, options: ReadAheadOptions) {
    const push = http2.push.bind(http2);
    // node:http2 calls this method for each DATA frame, and emits no event for a paused stream.
    http2.push = (chunk: Buffer | null): boolean => {
      if (chunk === null) {
        return push(chunk);
      }
      const isBehind = http2.readableLength > 0;
      this.overheadBytes = isBehind ? this.overheadBytes + chunkOverheadBytes : 0;
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
}
