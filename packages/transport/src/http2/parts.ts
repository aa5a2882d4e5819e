// SPDX-License-Identifier: Apache-2.0
import type { BufferPool } from "./buffer-pool.ts";

/** Size of the first part, and of the others. */
const firstBytes = 16 * 1024;
const partBytes = 64 * 1024;

/**
 * The bytes of a message of which little has arrived, in parts from a pool. Peers that never complete their messages
 * thus fill the same memory again and again; one buffer per message would be garbage of another size each time.
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

  /** Moves the oldest parts to a buffer that begins with them at `start`, until `bytes` or all bytes have moved. */
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
