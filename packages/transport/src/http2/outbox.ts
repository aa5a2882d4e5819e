// SPDX-License-Identifier: Apache-2.0
import type { MessageCodec } from "@dm-env-rpc/tensor-codec/wire";
import type { BufferPool } from "../assembly/buffer-pool.ts";

const headerBytes = 5;
const maxFrameBytes = 2 ** 32 - 1;
const firstSlabBytes = 1024;
/** Once a stream has filled several slabs, its slabs have at least this size. */
const warmSlabBytes = 4 * 1024;
const largeSlabBytes = 64 * 1024;
/** A message above this size has a separate buffer, from the pool. */
const largeMessageBytes = 32 * 1024;
const noBytes: Buffer = Buffer.alloc(0);

/** A part of a pending write. */
export interface Piece {
  readonly bytes: Buffer;
  /**
   * Buffer of the pool that `bytes` is a view of, to be returned once the piece is written. Undefined if `bytes` is in
   * a slab.
   */
  readonly pooled: Buffer | undefined;
}

/** Encodes the messages of one direction. */
export type Encoder<T> = Pick<MessageCodec<T>, "size" | "write">;

/**
 * The messages of one turn of the event loop, framed one after the other.
 *
 * Small messages are encoded directly into a slab that the stream owns. Bytes that were handed to a write
 * never change; later messages follow them in the slab. The size of a slab depends on the last turn's traffic, so that
 * an idle stream holds little memory.
 */
export class Outbox<T> {
  /** Bytes of pending messages. */
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
   * @throws RangeError above 4 GiB, or the codec's error. The pending bytes are then unchanged.
   */
  add(message: T): void {
    const size = this.#encoder.size(message);
    const total = size + headerBytes;
    if (size > maxFrameBytes) {
      throw new RangeError(
        `message too large: expected at most ${maxFrameBytes} bytes in a gRPC frame, received ${size}; send less in one message`,
      );
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

  /** Returns and removes the pending bytes, in pieces that will not change. */
  take(): readonly Piece[] {
    if (this.bytes === 0) {
      return [];
    }
    this.#seal();
    const pieces = this.#pieces;
    this.#pieces = [];
    // The next slab has room for two turns like this one, so that only every second turn allocates a slab.
    let size = Math.min(this.#slabSize, warmSlabBytes);
    while (size < 2 * this.bytes && size < largeSlabBytes) {
      size *= 2;
    }
    this.#slabSize = size;
    this.bytes = 0;
    return pieces;
  }

  /** Drops the pending messages. */
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
