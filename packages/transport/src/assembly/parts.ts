// SPDX-License-Identifier: Apache-2.0
import type { BufferPool } from "./buffer-pool.ts";

/** Size of the first part, which is not from the pool. */
const firstBytes = 16 * 1024;

/** Size of all further parts, which are from the pool. */
const partBytes = 64 * 1024;

/**
 * Stores the first bytes of a large message in parts, until the message is allocated as a whole. All but the first part
 * are from a pool, so peers that never complete their messages fill the same memory again and again. With one buffer
 * per message, each message would leave garbage of a different size.
 */
export class Parts {
  readonly #pool: BufferPool;
  readonly #parts: Buffer[] = [];
  /** Bytes in the last part. */
  #length = 0;
  /** Bytes that `moveTo` has moved. */
  #moved = 0;

  constructor(pool: BufferPool) {
    this.#pool = pool;
  }

  /** Copies the bytes of a chunk from `start` to `end`. */
  add(chunk: Buffer, start: number, end: number): void {
    for (let at = start; at < end; ) {
      let part = this.#parts.at(-1);
      if (part === undefined || this.#length === part.length) {
        part = part === undefined ? Buffer.allocUnsafeSlow(firstBytes) : this.#pool.take(partBytes);
        this.#parts.push(part);
        this.#length = 0;
      }
      const copied = chunk.copy(part, this.#length, at, end);
      this.#length += copied;
      at += copied;
    }
  }

  /**
   * Moves the oldest parts to `target`, until at least `bytes` more bytes have moved or no part is left. The message
   * begins at `start` of `target`.
   */
  moveTo(target: Buffer, start: number, bytes: number): void {
    const end = this.#moved + bytes;
    while (this.#moved < end) {
      const part = this.#parts.shift();
      if (part === undefined) {
        break;
      }
      const length = this.#parts.length === 0 ? this.#length : part.length;
      this.#moved += part.copy(target, start + this.#moved, 0, length);
      this.#giveBack(part);
    }
    if (this.#parts.length === 0) {
      this.clear();
    }
  }

  /** Drops all bytes. */
  clear(): void {
    for (const part of this.#parts) {
      this.#giveBack(part);
    }
    this.#parts.length = 0;
    this.#length = 0;
    this.#moved = 0;
  }

  #giveBack(part: Buffer): void {
    if (part.length === partBytes) {
      this.#pool.give(part);
    }
  }
}
