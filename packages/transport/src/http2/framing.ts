// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Malformed } from "@dm-env-rpc/tensor-codec/wire";
import { type Arriving, Assembly } from "../assembly/assembly.ts";
import type { BufferPool } from "../assembly/buffer-pool.ts";
import { chunkOverheadBytes, owned } from "../assembly/owned.ts";
import { tooLarge } from "../limits/too-large.ts";
import { ChunkMemory } from "./chunk-memory.ts";

const headerBytes = 5;
const noBytes: Buffer = Buffer.alloc(0);

/**
 * Splits a stream of bytes into gRPC's length-prefixed messages.
 *
 * `push` takes chunks as they arrive, and `next` finds the messages in the chunks one by one. A message within one
 * chunk is not copied; a message that spans several chunks is assembled (`Assembly`), and if it is large, it is checked
 * meanwhile.
 */
export class Deframer {
  /** Memory in which `next` found a message, from `start` to `end`. */
  source: Buffer = noBytes;
  start = 0;
  end = 0;
  /** True if the message is compressed. */
  compressed = false;
  /** True if the message was assembled from several chunks, in separate memory. */
  assembled = false;
  /** Framing error that makes the rest of the stream unreadable; `next` sets it. */
  failure: DmEnvRpcError | undefined;
  /** The assembly of messages that span several chunks. */
  readonly assembly: Assembly;

  readonly #maxMessageBytes: number;
  readonly #limit: string | undefined;
  readonly #side: "client" | "server";
  #chunk: Buffer = noBytes;
  #at = 0;
  /** True if `next` has returned a message that is a view of the chunk. */
  #isViewed = false;
  readonly #chunkMemory: ChunkMemory | undefined;
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #flags = 0;
  #headerLength = 0;
  /** Size of the message whose header was read last. */
  #bodySize = 0;

  /**
   * @param pool Memory for the first bytes of large messages (`Parts`).
   * @param side The side that reads. A client frees the memory of chunks once they are copied (`ChunkMemory`).
   * @param arriving Starts to check a message of `size` bytes. Default: messages are not checked.
   * @param limit Name of the limit that sets `maxMessageBytes`. Default: that name.
   */
  constructor(
    maxMessageBytes: number,
    pool: BufferPool,
    side: "client" | "server" = "server",
    arriving?: Arriving | undefined,
    limit?: string,
  ) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#limit = limit;
    this.assembly = new Assembly(pool, arriving);
    this.#side = side;
    this.#chunkMemory = side === "client" ? new ChunkMemory() : undefined;
  }

  /** Pushed bytes that `next` has not returned in a message yet, including the overhead of the chunks that wait. */
  get bufferedBytes(): number {
    return this.#waitingBytes + (this.#chunk.length - this.#at) + this.assembly.storedBytes;
  }

  /** Returns true if a chunk of `length` bytes that is pushed next neither begins nor completes a message. */
  isInsideBody(length: number): boolean {
    const { arrivedBytes, missingBytes } = this.assembly;
    const waiting = this.#chunk.length - this.#at + this.#waitingBytes;
    return arrivedBytes > 0 && waiting + length < missingBytes;
  }

  /** True inside a large message that is checked while it arrives. */
  get isChecking(): boolean {
    return this.assembly.isChecking;
  }

  /** True if the pushed bytes end inside a message; valid once `next` has returned false. */
  get isInsideMessage(): boolean {
    return this.#headerLength > 0 || this.assembly.isOpen;
  }

  /** Appends a chunk, which must not change afterwards. */
  push(chunk: Buffer): void {
    if (this.#at === this.#chunk.length && this.#waiting.length === 0) {
      this.#chunk = chunk;
      this.#at = 0;
      this.#isViewed = false;
      return;
    }
    this.#waiting.push(owned(chunk));
    this.#waitingBytes += chunk.length + chunkOverheadBytes;
  }

  /** Returns the refusal of the message whose rest is dropped, once. */
  takeRefusal(): Malformed | undefined {
    return this.assembly.takeRefusal();
  }

  /**
   * Finds the next complete message; returns false if no message is complete yet, after a refusal (`takeRefusal`), or
   * after a `failure`.
   */
  next(): boolean {
    while (this.failure === undefined) {
      if (this.#at === this.#chunk.length && !this.#nextChunk()) {
        return false;
      }
      if (this.assembly.isOpen) {
        if (this.#assemble()) {
          return true;
        }
        if (this.assembly.isRefused) {
          return false;
        }
        continue;
      }
      const chunk = this.#chunk;
      let at = this.#at;
      if (this.#headerLength > 0 || chunk.length - at < headerBytes) {
        if (!this.#collectHeader()) {
          continue;
        }
        at = this.#at;
      } else {
        this.#flags = chunk[at] ?? 0;
        this.#bodySize = readLength(chunk, at + 1);
        at += headerBytes;
        this.#at = at;
      }
      if (!this.#begin()) {
        return false;
      }
      const end = at + this.#bodySize;
      if (end <= chunk.length) {
        // Storing the same value again would run V8's write barrier for each message.
        if (this.source !== chunk) {
          this.source = chunk;
        }
        this.start = at;
        this.end = end;
        this.assembled = false;
        this.#at = end;
        this.#isViewed = true;
        return true;
      }
      this.assembly.open(this.#bodySize, !this.compressed);
    }
    return false;
  }

  /** Releases the memory of a chunk if only a small part of it is unread. */
  release(): void {
    const isRead = this.#at === this.#chunk.length;
    const rest = isRead ? noBytes : owned(this.#chunk.subarray(this.#at));
    if (isRead || rest.buffer !== this.#chunk.buffer) {
      this.#chunk = rest;
      this.#at = 0;
      this.#isViewed = false;
      this.source = noBytes;
    }
  }

  /** Drops everything that was pushed. */
  clear(): void {
    this.source = noBytes;
    this.start = 0;
    this.end = 0;
    this.#chunk = noBytes;
    this.#at = 0;
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.#headerLength = 0;
    this.assembly.clear();
  }

  #nextChunk(): boolean {
    const next = this.#waiting.length > 0 ? this.#waiting.shift() : undefined;
    this.#at = 0;
    if (next === undefined) {
      // An idle stream must not keep its last chunk in memory.
      this.#chunk = noBytes;
      this.source = noBytes;
      return false;
    }
    this.#waitingBytes -= next.length + chunkOverheadBytes;
    this.#chunk = next;
    this.#isViewed = false;
    return true;
  }

  /** Collects a message header that spans chunks; returns true once all five bytes are read. */
  #collectHeader(): boolean {
    const chunk = this.#chunk;
    while (this.#at < chunk.length) {
      const byte = chunk[this.#at] ?? 0;
      this.#at += 1;
      if (this.#headerLength === 0) {
        this.#flags = byte;
        this.#bodySize = 0;
      } else {
        this.#bodySize = this.#bodySize * 256 + byte;
      }
      this.#headerLength += 1;
      if (this.#headerLength === headerBytes) {
        this.#headerLength = 0;
        return true;
      }
    }
    return false;
  }

  /** Checks a message header. */
  #begin(): boolean {
    if (this.#flags > 1) {
      this.failure = new DmEnvRpcError(
        "INTERNAL",
        `malformed gRPC frame: expected a compression flag of 0 or 1, received ${this.#flags}`,
        { origin: "connection" },
      );
      return false;
    }
    if (this.#bodySize > this.#maxMessageBytes) {
      this.failure = tooLarge(
        this.#side,
        `${this.#bodySize} bytes`,
        this.#maxMessageBytes,
        this.#limit,
      );
      return false;
    }
    this.compressed = this.#flags === 1;
    return true;
  }

  /** Adds the chunk's bytes of a message; returns true if the message is complete. */
  #assemble(): boolean {
    const { assembly } = this;
    const chunk = this.#chunk;
    const end = Math.min(chunk.length, this.#at + assembly.missingBytes);
    const whole = assembly.add(chunk, this.#at, end);
    this.#at = end;
    if (end === chunk.length && !this.#isViewed) {
      this.#chunkMemory?.copied(chunk);
    }
    if (whole === undefined) {
      return false;
    }
    this.source = whole;
    this.start = assembly.start;
    this.end = assembly.end;
    this.assembled = true;
    return true;
  }
}

/** Reads four bytes, big-endian. */
function readLength(chunk: Buffer, at: number): number {
  const high = ((chunk[at] as number) << 8) | (chunk[at + 1] as number);
  const low = ((chunk[at + 2] as number) << 8) | (chunk[at + 3] as number);
  return high * 0x10000 + low;
}
