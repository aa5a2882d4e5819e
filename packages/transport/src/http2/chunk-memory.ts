// SPDX-License-Identifier: Apache-2.0

/** The header of a frame (RFC 9113, section 4.1). */
const frameHeaderBytes = 9;

/** Smaller buffers are not worth the call. */
const leastBytes = 16 * 1024;

/**
 * Bytes that are copied before any buffer is freed: a process that has ever freed an ArrayBuffer runs all code on
 * typed arrays up to a sixth slower, which an occasional large message is not worth.
 */
const patienceBytes = 8 * 1024 * 1024;

/**
 * Frees the memory that node:http2 reads into as soon as all of it is copied, instead of at the next garbage
 * collection. Collecting that memory costs a client more CPU than everything else it does with large messages.
 *
 * Each read is one ArrayBuffer, and its chunks are views of it. The buffer is detached once a chunk of the next
 * read arrives, so that node:http2 is done with it, and only if the bytes that were not copied can be frame
 * headers alone: at most nine for each chunk. A payload that another reader sees has a header of its own, so
 * that it exceeds the one header that may be missing because the read before contained it.
 */
export class ChunkMemory {
  #patience = patienceBytes;
  #buffer: WeakRef<ArrayBuffer> | undefined;
  /** Bytes of that buffer that were copied, and the number of chunks they came in. */
  #copiedBytes = 0;
  #chunks = 0;

  /** Records that a whole chunk was copied and no view of it remains. */
  copied(chunk: Buffer): void {
    if (this.#patience > 0) {
      this.#patience -= chunk.length;
      return;
    }
    const buffer = chunk.buffer as ArrayBuffer;
    if (buffer.byteLength < leastBytes) {
      return;
    }
    const before = this.#buffer?.deref();
    if (buffer !== before) {
      if (before !== undefined) {
        this.#free(before);
      }
      this.#buffer = new WeakRef(buffer);
      this.#copiedBytes = 0;
      this.#chunks = 0;
    }
    this.#copiedBytes += chunk.length;
    this.#chunks += 1;
  }

  #free(buffer: ArrayBuffer): void {
    const others = buffer.byteLength - this.#copiedBytes;
    if (others <= this.#chunks * frameHeaderBytes) {
      buffer.transfer(0);
    }
  }
}
