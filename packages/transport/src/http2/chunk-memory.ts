// SPDX-License-Identifier: Apache-2.0

/** Bytes of a frame's header (RFC 9113, section 4.1). */
const frameHeaderBytes = 9;

/** Size below which a buffer is not freed, because the call would cost more than it saves. */
const leastBytes = 16 * 1024;

/**
 * Bytes that are copied before the first buffer is freed. A process that has ever freed an ArrayBuffer runs all code
 * on typed arrays up to a sixth slower, which is too high a price for an occasional large message.
 */
const patienceBytes = 8 * 1024 * 1024;

/**
 * Frees the memory that node:http2 reads into as soon as all of it is copied, instead of at the next garbage
 * collection. Collecting that memory costs a client more CPU than everything else it does with large messages.
 *
 * Each read is one ArrayBuffer, and its chunks are views of it. The buffer is detached when a chunk of the next read
 * arrives, because node:http2 has then finished with it, and only if the bytes that were not copied can all be frame
 * headers: at most nine bytes for each chunk. If the read also contains DATA of another stream, its header and at least one byte
 * of its payload are uncopied, too, which exceeds the bound. That holds even if the first header of the read was in the
 * previous read.
 */
export class ChunkMemory {
  #patience = patienceBytes;
  #buffer: WeakRef<ArrayBuffer> | undefined;
  /** Number of bytes of `#buffer` that were copied. */
  #copiedBytes = 0;
  /** Number of chunks that contained these bytes. */
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
