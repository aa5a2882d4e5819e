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
 * chunk of the next one has come, so that node:http2 is done with it, and if it has no byte that anybody
 * else can see: nothing but what was copied and the headers of those frames.
 */
export class ChunkMemory {
  #buffer: ArrayBuffer | undefined;
  /** Of that buffer: bytes that were copied, and the chunks that they came in. */
  #copiedBytes = 0;
  #chunks = 0;
  #patience = patienceBytes;

  /** A whole chunk was copied, and nobody has a view of it. */
  copied(chunk: Buffer): void {
    const buffer = chunk.buffer as ArrayBuffer;
    if (buffer !== this.#buffer) {
      this.#free();
      this.#buffer = buffer;
      this.#copiedBytes = 0;
      this.#chunks = 0;
    }
    this.#copiedBytes += chunk.length;
    this.#chunks += 1;
  }

  /** Forgets what was copied; it is left to the garbage collector. */
  clear(): void {
    this.#buffer = undefined;
  }

  #free(): void {
    const buffer = this.#buffer;
    if (buffer === undefined || buffer.byteLength < leastBytes) return;
    this.#patience -= this.#copiedBytes;
    const others = buffer.byteLength - this.#copiedBytes;
    if (this.#patience <= 0 && others <= this.#chunks * frameHeaderBytes) buffer.transfer(0);
  }
}
