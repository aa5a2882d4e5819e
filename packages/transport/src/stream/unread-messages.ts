// SPDX-License-Identifier: Apache-2.0
import type { Malformed, MessageCodec } from "@dm-env-rpc/tensor-codec/wire";
import type { StreamReceiver, UnreadMessage } from "./message-stream.ts";

type Decoder<Received> = Pick<MessageCodec<Received>, "read">;

/** Size of a slab. An ArrayBuffer for each small message would take twenty times the memory of its bytes. */
const slabBytes = 2 * 1024;

/** A message that must be copied is copied into a slab if it has at most this many bytes. */
const largestInSlab = 256;

const noBytes = new Uint8Array(0);

/** Messages of one stream that are decoded later. Small messages are copied into slabs that several messages share. */
export class UnreadMessages<Received> {
  readonly #decoder: Decoder<Received>;
  #slab: Uint8Array = noBytes;
  #at = 0;
  /** Number of messages in slabs that have not been read yet. */
  #inSlabs = 0;

  constructor(decoder: Decoder<Received>) {
    this.#decoder = decoder;
  }

  /** Delivers the message from `start` to `end` of `source`, whose bytes must not change afterwards. */
  deliver(
    receiver: StreamReceiver<Received>,
    source: Uint8Array,
    start: number,
    end: number,
  ): void {
    if (receiver.takesUnread === true) {
      receiver.onUnread?.(this.add(source, start, end));
    } else {
      receiver.onMessage(this.#decoder.read(source, start, end), end - start);
    }
  }

  /**
   * Returns a message. Copies its bytes if other data takes most of their ArrayBuffer. Without the copy, that data
   * would stay in memory, too.
   */
  add(source: Uint8Array, start: number, end: number): UnreadMessage<Received> {
    const size = end - start;
    if (2 * size >= source.buffer.byteLength) {
      return new UnreadBytes(this.#decoder, source, start, end);
    }
    if (size > largestInSlab) {
      // Not `source.slice`, which copies nothing if the source is a Buffer.
      return new UnreadBytes(this.#decoder, new Uint8Array(source.subarray(start, end)), 0, size);
    }
    if (size > this.#slab.length - this.#at) {
      this.#slab = new Uint8Array(slabBytes);
      this.#at = 0;
    }
    const at = this.#at;
    this.#at += size;
    this.#inSlabs += 1;
    this.#slab.set(source.subarray(start, end), at);
    return new UnreadBytes(this.#decoder, this.#slab, at, at + size, this.#onRead);
  }

  /** Drops the slab once all messages in slabs are read, so that an idle stream holds no slab. */
  readonly #onRead = (): void => {
    this.#inSlabs -= 1;
    if (this.#inSlabs === 0) {
      this.#slab = noBytes;
      this.#at = 0;
    }
  };
}

/** Returns a message whose bytes have memory of their own. */
export function unreadMessage<Received>(
  decoder: Decoder<Received>,
  bytes: Uint8Array,
): UnreadMessage<Received> {
  return new UnreadBytes(decoder, bytes, 0, bytes.length);
}

/** An undecoded message whose bytes do not change. It is one small object, because thousands may wait. */
class UnreadBytes<Received> implements UnreadMessage<Received> {
  readonly #decoder: Decoder<Received>;
  readonly #source: Uint8Array;
  readonly #start: number;
  readonly #end: number;
  /** Called at the first read. */
  #onRead: (() => void) | undefined;

  constructor(
    decoder: Decoder<Received>,
    source: Uint8Array,
    start: number,
    end: number,
    onRead?: () => void,
  ) {
    this.#decoder = decoder;
    this.#source = source;
    this.#start = start;
    this.#end = end;
    this.#onRead = onRead;
  }

  get size(): number {
    return this.#end - this.#start;
  }

  get firstByte(): number {
    return this.#start < this.#end ? (this.#source[this.#start] ?? 0) : 0;
  }

  read(): Received | Malformed {
    this.#onRead?.();
    this.#onRead = undefined;
    return this.#decoder.read(this.#source, this.#start, this.#end);
  }
}
