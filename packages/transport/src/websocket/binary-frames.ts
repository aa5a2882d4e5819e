// SPDX-License-Identifier: Apache-2.0
import { randomFillSync } from "node:crypto";

/** Larger messages are sent from their own memory; smaller ones are copied into the turn's write. */
const largeMessageBytes = 32 * 1024;

/** A frame has at most 2 bytes, a length of 8 bytes and a mask of 4. */
const maxHeaderBytes = 14;

/** Masks that are drawn at a time. */
const masksPerDraw = 128;

/** The final frame of a binary message. */
const finalBinary = 0x82;

/**
 * Binary messages of one turn of the event loop, to be sent as frames (RFC 6455, section 5.2).
 *
 * The library `ws` would make two buffers, two writes and three objects for each.
 */
export class BinaryFrames {
  /** Bytes of pending messages. */
  bytes = 0;

  readonly #isMasked: boolean;
  #messages: Uint8Array[] = [];
  #masks: Buffer = Buffer.alloc(0);
  #nextMask = 0;

  /** @param isMasked True for a client, whose frames are masked. */
  constructor(isMasked: boolean) {
    this.#isMasked = isMasked;
  }

  /** Number of pending messages. */
  get count(): number {
    return this.#messages.length;
  }

  /** Adds a message, whose memory belongs to the frames from then on. */
  add(message: Uint8Array): void {
    this.#messages.push(message);
    this.bytes += message.length;
  }

  /** Returns and removes the pending messages as frames. */
  take(): readonly Uint8Array[] {
    const messages = this.#messages;
    this.clear();
    const pieces: Uint8Array[] = [];
    let begin = 0;
    for (const [index, message] of messages.entries()) {
      if (message.length > largeMessageBytes) {
        this.#pushSmall(pieces, messages.slice(begin, index));
        begin = index + 1;
        const header = Buffer.allocUnsafe(maxHeaderBytes);
        const end = this.#writeHeader(header, 0, message.length);
        if (this.#isMasked) {
          mask(message, 0, message.length, header, end - 4);
        }
        pieces.push(header.subarray(0, end), message);
      }
    }
    this.#pushSmall(pieces, begin === 0 ? messages : messages.slice(begin));
    return pieces;
  }

  /** Drops the pending messages. */
  clear(): void {
    this.#messages = [];
    this.bytes = 0;
  }

  /** Puts small messages into one piece. */
  #pushSmall(pieces: Uint8Array[], messages: readonly Uint8Array[]): void {
    if (messages.length === 0) {
      return;
    }
    let most = 0;
    for (const { length } of messages) {
      most += length + maxHeaderBytes;
    }
    const target = Buffer.allocUnsafe(most);
    let at = 0;
    for (const message of messages) {
      const start = this.#writeHeader(target, at, message.length);
      target.set(message, start);
      at = start + message.length;
      if (this.#isMasked) {
        mask(target, start, at, target, start - 4);
      }
    }
    pieces.push(target.subarray(0, at));
  }

  /** @returns The position after the header, whose last 4 bytes are the mask, if there is one. */
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

/** Masks the bytes from `start` to `end` with the 4 bytes at `key` of `keys`. */
function mask(bytes: Uint8Array, start: number, end: number, keys: Uint8Array, key: number): void {
  const key0 = keys[key] ?? 0;
  const key1 = keys[key + 1] ?? 0;
  const key2 = keys[key + 2] ?? 0;
  const key3 = keys[key + 3] ?? 0;
  let at = start;
  for (const last = end - 3; at < last; at += 4) {
    bytes[at] = (bytes[at] ?? 0) ^ key0;
    bytes[at + 1] = (bytes[at + 1] ?? 0) ^ key1;
    bytes[at + 2] = (bytes[at + 2] ?? 0) ^ key2;
    bytes[at + 3] = (bytes[at + 3] ?? 0) ^ key3;
  }
  for (let i = 0; at < end; i++, at++) {
    bytes[at] = (bytes[at] ?? 0) ^ (keys[key + i] ?? 0);
  }
}
