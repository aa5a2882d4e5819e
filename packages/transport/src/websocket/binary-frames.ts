// SPDX-License-Identifier: Apache-2.0
import { randomFillSync } from "node:crypto";
import type { MessageCodec } from "@dm-env-rpc/tensor-codec/wire";
import { mask } from "./mask.ts";

/** Messages of at most this size share one write per turn. Each larger message has separate memory. */
const largeMessageBytes = 32 * 1024;

/** Size of the buffer for small frames. Later turns continue to fill it. */
const slabBytes = 16 * 1024;

/** Maximum size of a frame's header: 2 bytes, a length of 8 bytes, and a mask of 4 bytes. */
const maxHeaderBytes = 14;

/** Number of random masks that are drawn at once. */
const masksPerDraw = 128;

/** First byte of the final frame of a binary message. */
const finalBinary = 0x82;

const noBytes: Buffer = Buffer.alloc(0);

/**
 * Binary messages of one turn of the event loop, to be sent as frames (RFC 6455, section 5.2).
 *
 * The library `ws` would make two buffers, two writes and three objects for each message.
 */
export class BinaryFrames {
  /** Bytes of pending messages. */
  bytes = 0;
  /** Number of pending messages. */
  count = 0;

  readonly #isMasked: boolean;
  #slab: Buffer = noBytes;
  #start = 0;
  #end = 0;
  #pieces: Uint8Array[] = [];
  #masks: Buffer = noBytes;
  #nextMask = 0;

  /** @param isMasked True for a client, whose frames are masked. */
  constructor(isMasked: boolean) {
    this.#isMasked = isMasked;
  }

  /** Adds a message and takes over its memory. */
  add(message: Uint8Array): void {
    const size = message.length;
    if (size <= largeMessageBytes) {
      this.#reserve(size + maxHeaderBytes);
      const body = this.#writeHeader(this.#slab, this.#end, size);
      this.#slab.set(message, body);
      this.#end = this.#finish(this.#slab, body, body + size);
    } else {
      const header = Buffer.allocUnsafe(maxHeaderBytes);
      const body = this.#writeHeader(header, 0, size);
      if (this.#isMasked) {
        mask(message, 0, size, header, body - 4);
      }
      this.#seal();
      this.#pieces.push(header.subarray(0, body), message);
    }
    this.#count(size);
  }

  /**
   * Encodes a message directly into a frame.
   *
   * @throws The codec's error; in that case, the pending messages are unchanged.
   */
  encode<T>(message: T, encoder: Pick<MessageCodec<T>, "size" | "write">): void {
    const size = encoder.size(message);
    if (size <= largeMessageBytes) {
      this.#reserve(size + maxHeaderBytes);
      const body = this.#writeHeader(this.#slab, this.#end, size);
      this.#end = this.#finish(this.#slab, body, encoder.write(message, this.#slab, body));
    } else {
      const frame = Buffer.allocUnsafeSlow(size + maxHeaderBytes);
      const body = this.#writeHeader(frame, 0, size);
      const end = this.#finish(frame, body, encoder.write(message, frame, body));
      this.#seal();
      this.#pieces.push(frame.subarray(0, end));
    }
    this.#count(size);
  }

  /** Returns and removes the pending messages as frames, in pieces that will not change. */
  take(): readonly Uint8Array[] {
    this.#seal();
    const pieces = this.#pieces;
    this.#pieces = [];
    this.bytes = 0;
    this.count = 0;
    return pieces;
  }

  /** Drops the pending messages. */
  clear(): void {
    this.take();
  }

  #count(size: number): void {
    this.bytes += size;
    this.count += 1;
  }

  /** Ensures that the buffer has room for a frame. */
  #reserve(bytes: number): void {
    if (bytes > this.#slab.length - this.#end) {
      this.#seal();
      this.#slab = Buffer.allocUnsafeSlow(Math.max(slabBytes, bytes));
      this.#start = 0;
      this.#end = 0;
    }
  }

  /** Makes one piece of the small frames that were written since the last piece. */
  #seal(): void {
    if (this.#end > this.#start) {
      this.#pieces.push(this.#slab.subarray(this.#start, this.#end));
      this.#start = this.#end;
    }
  }

  /** Masks the body of a client's frame. Returns the end of the body. */
  #finish(target: Buffer, body: number, end: number): number {
    if (this.#isMasked) {
      mask(target, body, end, target, body - 4);
    }
    return end;
  }

  /** @returns The position after the header. If frames are masked, the header's last 4 bytes are the mask. */
  #writeHeader(target: Buffer, start: number, length: number): number {
    const maskBit = this.#isMasked ? 0x80 : 0;
    let at = start;
    target[at++] = finalBinary;
    if (length < 126) {
      target[at++] = maskBit | length;
    } else if (length < 0x1_0000) {
      target[at++] = maskBit | 126;
      at = target.writeUInt16BE(length, at);
    } else {
      target[at++] = maskBit | 127;
      at = target.writeUInt32BE(Math.floor(length / 2 ** 32), at);
      at = target.writeUInt32BE(length >>> 0, at);
    }
    if (this.#isMasked) {
      if (this.#nextMask === this.#masks.length) {
        this.#masks = randomFillSync(Buffer.allocUnsafeSlow(4 * masksPerDraw));
        this.#nextMask = 0;
      }
      for (let i = 0; i < 4; i++) {
        target[at++] = this.#masks[this.#nextMask++] ?? 0;
      }
    }
    return at;
  }
}
