// SPDX-License-Identifier: Apache-2.0
import type { Readable } from "node:stream";
import { chunkOverheadBytes, owned } from "../../assembly/owned.ts";
import { prefixBytes } from "../../internal/envelope.ts";

/** Receives what `RequestBytes` counts. */
export interface RequestEvents {
  /** A chunk is a piece if it has fewer bytes than this. */
  readonly pieceBytes: number;
  /** Called when `bytes` has grown because a message is incomplete, or because its consumer is behind. */
  onGrowth(): void;
  /** Called when a piece has arrived. */
  onPiece(): void;
}

/**
 * Counts the bytes of a call's request that have arrived and are not delivered: those that the consumer has not read,
 * and those that it has read of a message that is incomplete. Copies the chunks that would keep much more memory alive
 * than their own bytes.
 */
export class RequestBytes {
  readonly #readable: Readable;
  readonly #events: RequestEvents;
  /** Bytes that have arrived, and that the consumer has not read. */
  #unread: number;
  /** Bytes that the consumer has read of an incomplete message. */
  #partial = 0;
  /** Number of chunks that have arrived while others were undelivered. */
  #chunks = 0;
  #isConsumed = false;
  #isFramed = false;
  /** The prefix of a message; allocated when the first message is read. */
  #prefix: Buffer | undefined;

  constructor(readable: Readable, events: RequestEvents) {
    this.#readable = readable;
    this.#events = events;
    this.#unread = readable.readableLength; // node:http2 may read DATA before it emits "stream".
    const push = readable.push.bind(readable);
    // node:http and node:http2 call this method for each chunk, and emit no event for a paused stream.
    readable.push = (chunk: Buffer | null): boolean => {
      if (chunk === null) {
        return push(chunk);
      }
      const isBehind = this.#undelivered > 0;
      this.#chunks = isBehind ? this.#chunks + 1 : 0;
      this.#unread += chunk.length;
      const isWanted = push(isBehind ? owned(chunk) : chunk);
      if (isBehind) {
        events.onGrowth();
      }
      if (chunk.length < events.pieceBytes) {
        events.onPiece();
      }
      return isWanted;
    };
  }

  /** Number of undelivered bytes, with their overhead. */
  get bytes(): number {
    const undelivered = this.#undelivered;
    return undelivered === 0 ? 0 : undelivered + this.#chunks * chunkOverheadBytes;
  }

  get #undelivered(): number {
    return this.#isConsumed ? this.#unread + this.#partial : this.#readable.readableLength;
  }

  /** Returns the chunks of `body`, and counts what their consumer reads; for `isFramed`, see `begin`. */
  async *countRead(
    body: AsyncIterable<Uint8Array>,
    isFramed: boolean,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    this.begin(isFramed);
    try {
      for await (const chunk of body) {
        yield this.read(chunk);
      }
    } finally {
      this.end();
    }
  }

  /**
   * Called when a consumer begins to read the request.
   *
   * @param isFramed True if the consumer delivers each message when it is complete; every message then has a prefix with
   *   its length. False if the consumer delivers nothing before the request ends.
   */
  begin(isFramed: boolean): void {
    this.#isConsumed = true;
    this.#isFramed = isFramed;
  }

  /** Counts a chunk that the consumer has read. Returns the chunk, or a copy for the consumer to keep. */
  read(chunk: Uint8Array): Uint8Array {
    this.#unread -= chunk.length;
    this.#partial = this.#isFramed ? this.#partialAfter(chunk) : this.#partial + chunk.length;
    if (this.#partial > 0) {
      this.#events.onGrowth();
    }
    return owned(chunk);
  }

  /** Called when the consumer has stopped reading: it holds nothing more. */
  end(): void {
    this.#isConsumed = false;
  }

  /** Returns how many bytes of an incomplete message the consumer holds after a chunk. */
  #partialAfter(chunk: Uint8Array): number {
    this.#prefix ??= Buffer.alloc(prefixBytes);
    let partial = this.#partial;
    let at = 0;
    while (at < chunk.length) {
      if (partial < prefixBytes) {
        const end = Math.min(chunk.length, at + prefixBytes - partial);
        this.#prefix.set(chunk.subarray(at, end), partial);
        partial += end - at;
        at = end;
      }
      if (partial < prefixBytes) {
        break;
      }
      const size = prefixBytes + this.#prefix.readUInt32BE(1);
      const end = Math.min(chunk.length, at + size - partial);
      partial += end - at;
      at = end;
      if (partial === size) {
        partial = 0;
      }
    }
    return partial;
  }
}
