// SPDX-License-Identifier: Apache-2.0

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
