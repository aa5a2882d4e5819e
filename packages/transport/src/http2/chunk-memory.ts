// SPDX-License-Identifier: Apache-2.0

/** Bytes of a frame's header (RFC 9113, section 4.1). */
const frameHeaderBytes = 9;

/** Smaller buffers are not freed, because the call would cost more than it saves. */
const leastBytes = 16 * 1024;

/**
 * No buffer is freed before this many bytes were copied. Once a process has freed an ArrayBuffer, all its code on typed
 * arrays runs up to a sixth slower. That price is too high for an occasional large message.
 */
const patienceBytes = 8 * 1024 * 1024;

/**
 * Frees the memory of a read of node:http2 once all of it is copied, without waiting for a garbage collection.
 * Collecting that memory costs a client more CPU than everything else it does with large messages.
 *
 * Each read is one ArrayBuffer, and its chunks are views of it. The buffer is detached when a chunk of the next read
 * arrives, because node:http2 has then finished with the buffer. It is detached only if at most nine bytes for each
 * chunk were left uncopied: the headers of the chunks' frames. DATA of another stream in the same read exceeds this
 * bound, because its frame adds a header and at least one byte. It does so even if the read begins inside a frame,
 * whose header was in the previous read.
 */
export class ChunkMemory {
  #patience = patienceBytes;
  #buffer: WeakRef<ArrayBuffer> | undefined;
  /** Number of bytes that were copied from `#buffer`. */
  #copiedBytes = 0;
  /** Number of chunks that were copied from `#buffer`. */
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
