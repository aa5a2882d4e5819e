// SPDX-License-Identifier: Apache-2.0

/** What stands in front of the payload of a frame (RFC 9113, section 4.1). */
const frameHeaderBytes = 9;

/** Less is not worth the call. */
const leastBytes = 16 * 1024;

/**
 * What is left to the garbage collector before: once a process has freed an ArrayBuffer, V8 works up to a
 * sixth slower on all its typed arrays, which a large message now and then is not worth.
 */
const patienceBytes = 8 * 1024 * 1024;

/**
 * Frees the memory of what node:http2 read as soon as all of it was copied, where it would wait for a
 * garbage collection otherwise: collecting costs a client more than everything else that it does with large messages.
 *
 * What is read at a time is one ArrayBuffer, of which every chunk in it is a view. It is freed once a
 * chunk of the next one has come, so that node:http2 is done with it, and if nobody else can see a byte of
 * it: what was not copied are at most nine bytes for each chunk, the headers of their frames. A payload
 * that somebody else sees has a header of its own, and is more than the one header that may be missing
 * because it came with the read before.
 */
export class ChunkMemory {
  #patience = patienceBytes;
  #buffer: WeakRef<ArrayBuffer> | undefined;
  /** Of that buffer: bytes that were copied, and the chunks that they came in. */
  #copiedBytes = 0;
  #chunks = 0;

  /** A whole chunk was copied, and nobody has a view of it. */
  copied(chunk: Buffer): void {
    if (this.#patience > 0) {
      this.#patience -= chunk.length;
      return;
    }
    const buffer = chunk.buffer as ArrayBuffer;
    if (buffer.byteLength < leastBytes) return;
    const before = this.#buffer?.deref();
    if (buffer !== before) {
      if (before !== undefined) this.#free(before);
      this.#buffer = new WeakRef(buffer);
      this.#copiedBytes = 0;
      this.#chunks = 0;
    }
    this.#copiedBytes += chunk.length;
    this.#chunks += 1;
  }

  #free(buffer: ArrayBuffer): void {
    const others = buffer.byteLength - this.#copiedBytes;
    if (others <= this.#chunks * frameHeaderBytes) buffer.transfer(0);
  }
}
