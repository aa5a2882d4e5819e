// SPDX-License-Identifier: Apache-2.0
import type { MessageCodec } from "@dm-env-rpc/tensor-codec/wire";
import type { BufferPool } from "./buffer-pool.ts";

const headerBytes = 5;
const firstSlabBytes = 1024;
/** A stream that has used up a few slabs gets none that are smaller. */
const warmSlabBytes = 4 * 1024;
const largeSlabBytes = 64 * 1024;
/** A message of this size gets memory of its own. */
const largeMessageBytes = 32 * 1024;
const noBytes: Buffer = Buffer.alloc(0);

/** Part of what is to be written. */
export interface Piece {
  readonly bytes: Buffer;
  /** The buffer of the pool that it lies in, to be given back once it is written. */
  readonly pooled: Buffer | undefined;
}

/** How one direction of a stream becomes bytes. */
export type Encoder<T> = Pick<MessageCodec<T>, "size" | "write">;

/**
 * The messages of one turn of the event loop, framed one behind the other.
 *
 * Small messages are written straight into a slab that the stream owns; what a
 * write took stays untouched, later messages go behind it. Slabs are
 * sized by the last turn's traffic, so that an idle stream holds little.
 */
export class Outbox<T> {
  /** Bytes that were added and not taken. */
  bytes = 0;

  readonly #encoder: Encoder<T>;
  readonly #pool: BufferPool;
  #slab: Buffer = noBytes;
  #slabSize = firstSlabBytes;
  #start = 0;
  #end = 0;
  #pieces: Piece[] = [];

  constructor(encoder: Encoder<T>, pool: BufferPool) {
    this.#encoder = encoder;
    this.#pool = pool;
  }

  /**
   * Frames a message.
   *
   * @throws what the codec throws; nothing was added then.
   */
  add(message: T): void {
    const size = this.#encoder.size(message);
    const total = size + headerBytes;
    if (size > 0xffffffff) {
      throw new RangeError(`message too large: a gRPC frame takes 4 GiB, received ${size} bytes`);
    }
    if (total > largeMessageBytes) {
      const pooled = this.#pool.take(total);
      this.#frame(message, size, pooled, 0);
      this.#seal();
      this.#pieces.push({ bytes: pooled.subarray(0, total), pooled });
    } else {
      if (total > this.#slab.length - this.#end) {
        this.#seal();
        this.#slab = Buffer.allocUnsafeSlow(Math.max(this.#slabSize, total));
        this.#slabSize = Math.min(2 * this.#slabSize, largeSlabBytes);
        this.#start = 0;
        this.#end = 0;
      }
      this.#frame(message, size, this.#slab, this.#end);
      this.#end += total;
    }
    this.bytes += total;
  }

  /** Hands out what was added, in pieces that will not change. */
  take(): readonly Piece[] {
    if (this.bytes === 0) {
      return [];
    }
    this.#seal();
    const pieces = this.#pieces;
    this.#pieces = [];
    this.#prepare();
    return pieces;
  }

  /** Hands out what was added, where that are small messages in one piece, as nearly always; else nothing. */
  takeOnly(): Buffer | undefined {
    if (this.#pieces.length > 0 || this.#start === this.#end) {
      return undefined;
    }
    const bytes = this.#slab.subarray(this.#start, this.#end);
    this.#start = this.#end;
    this.#prepare();
    return bytes;
  }

  /** Chooses the size of the next slab: room for two such turns, so that every other one needs no memory. */
  #prepare(): void {
    let size = Math.min(this.#slabSize, warmSlabBytes);
    while (size < 2 * this.bytes && size < largeSlabBytes) {
      size *= 2;
    }
    this.#slabSize = size;
    this.bytes = 0;
  }

  /** Drops what was added. */
  clear(): void {
    this.#slab = noBytes;
    this.#start = 0;
    this.#end = 0;
    this.#pieces = [];
    this.bytes = 0;
  }

  #seal(): void {
    if (this.#end > this.#start) {
      const bytes = this.#slab.subarray(this.#start, this.#end);
      this.#pieces.push({ bytes, pooled: undefined });
      this.#start = this.#end;
    }
  }

  #frame(message: T, size: number, target: Buffer, at: number): void {
    target[at] = 0;
    target[at + 1] = size >>> 24;
    target[at + 2] = size >>> 16;
    target[at + 3] = size >>> 8;
    target[at + 4] = size;
    const end = this.#encoder.write(message, target, at + headerBytes);
    if (end !== at + headerBytes + size) {
      throw new Error(
        `codec out of step: expected ${size} bytes to be written, received ${end - at - headerBytes}`,
      );
    }
  }
}
