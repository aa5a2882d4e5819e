// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ArrivingMessage, Malformed } from "@dm-env-rpc/tensor-codec/wire";
import { tooLarge } from "../limits/too-large.ts";
import type { BufferPool } from "./buffer-pool.ts";
import { ChunkMemory } from "./chunk-memory.ts";
import { Parts } from "./parts.ts";
import { chunkOverheadBytes, owned } from "./read-ahead.ts";

const headerBytes = 5;
const noBytes: Buffer = Buffer.alloc(0);

/** First value of `#trustedBytes`. */
const firstAllocationBytes = 16 * 1024;

/**
 * A message above `firstAllocationBytes` is allocated as a whole once this share of it has arrived. The rest costs
 * little at first, because the system provides a page of memory only when it is written to.
 */
const wholeShare = 1 / 4;

/** A message above this size is checked while it arrives. */
export const checkedBytes: number = 64 * 1024;

/** Spare memory of more than this many times the needed size is dropped. */
const maxSpare = 4;

/**
 * Splits a stream of bytes into gRPC's length-prefixed messages.
 *
 * `push` takes chunks as they arrive, and `next` finds the messages in the chunks one by one. A message within one
 * chunk is not copied; a message that spans several chunks is assembled in memory that no other message shares. Memory
 * for a whole message above 16 KiB is allocated only once a quarter of the message has arrived, or if an earlier
 * message was as long. Until then, its bytes wait in reused memory.
 *
 * A message above 64 KiB that spans several chunks is checked while it arrives. If it is refused, its bytes are dropped,
 * also those that arrive later.
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
  /** Bytes to leave free before the next assembled message, for its alignment. */
  lead = 0;
  /** Memory of an earlier message that is no longer borrowed; the next assembled message is stored there if it fits. */
  spare: Buffer | undefined;
  /** Framing error that makes the rest of the stream unreadable; `next` sets it. */
  failure: DmEnvRpcError | undefined;

  readonly #maxMessageBytes: number;
  readonly #limit: string | undefined;
  readonly #arriving: ((size: number) => ArrivingMessage) | undefined;
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
  /**
   * True inside the body of a message that is being assembled. Of its `#bodySize` bytes, `#bodyLength` have arrived.
   * They are in `#parts`, in `#body`, or partly in each.
   */
  #isInBody = false;
  readonly #parts: Parts;
  #body: Buffer | undefined;
  #bodyLength = 0;
  #bodySize = 0;
  #bodyStart = 0;
  /** The check of the message that is being assembled. */
  #check: ArrivingMessage | undefined;
  #refusal: Malformed | undefined;
  /** Bytes of a refused message that have been dropped; 0 if the message is not refused. */
  #droppedBytes = 0;
  /** A message of at most this size is allocated as a whole when its first bytes arrive. */
  #trustedBytes = firstAllocationBytes;

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
    arriving?: ((size: number) => ArrivingMessage) | undefined,
    limit?: string,
  ) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#limit = limit;
    this.#arriving = arriving;
    this.#parts = new Parts(pool);
    this.#side = side;
    this.#chunkMemory = side === "client" ? new ChunkMemory() : undefined;
  }

  /** Pushed bytes that `next` has not returned in a message yet, including the overhead of the chunks that wait. */
  get bufferedBytes(): number {
    return this.#waitingBytes + (this.#chunk.length - this.#at) + this.#bodyLength;
  }

  /** Returns true if a chunk of `length` bytes that is pushed next neither begins nor completes a message. */
  isInsideBody(length: number): boolean {
    const bodyBytes = this.#bodyBytes;
    const waiting = this.#chunk.length - this.#at + this.#waitingBytes;
    return bodyBytes > 0 && bodyBytes + waiting + length < this.#bodySize;
  }

  /** True inside a large message that is checked while it arrives. */
  get isChecking(): boolean {
    return this.#check !== undefined;
  }

  /** True if the pushed bytes end inside a message; valid once `next` has returned false. */
  get isInsideMessage(): boolean {
    return this.#headerLength > 0 || this.#isInBody;
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
    const refusal = this.#refusal;
    this.#refusal = undefined;
    return refusal;
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
      if (this.#isInBody) {
        if (this.#droppedBytes > 0) {
          this.#drop();
        } else if (this.#isRefused()) {
          return false;
        } else if (this.#collectBody()) {
          return true;
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
      this.#bodyStart = this.lead;
      this.#body = this.#takeSpare();
      this.#bodyLength = 0;
      this.#isInBody = true;
      if (this.#bodySize > checkedBytes && !this.compressed) {
        this.#check = this.#arriving?.(this.#bodySize);
      }
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
    this.#isInBody = false;
    this.#body = undefined;
    this.#bodyLength = 0;
    this.#parts.clear();
    this.#check = undefined;
    this.#refusal = undefined;
    this.#droppedBytes = 0;
    this.spare = undefined;
  }

  #takeSpare(): Buffer | undefined {
    const { spare } = this;
    this.spare = undefined;
    const needed = this.#bodyStart + this.#bodySize;
    return spare !== undefined && needed <= spare.length && spare.length <= maxSpare * needed
      ? spare
      : undefined;
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

  /** Bytes of an incomplete message that have arrived, without its prefix; 0 between messages. */
  get #bodyBytes(): number {
    return this.#bodyLength + this.#droppedBytes;
  }

  /** Position in the chunk up to which its bytes belong to the message. */
  get #bodyEnd(): number {
    return Math.min(this.#chunk.length, this.#at + this.#bodySize - this.#bodyBytes);
  }

  /** Checks the bytes of the message in the chunk; after a refusal, drops all bytes of the message. */
  #isRefused(): boolean {
    const refusal = this.#check?.add(this.#chunk, this.#at, this.#bodyEnd);
    if (refusal === undefined) {
      return false;
    }
    this.#refusal = refusal;
    this.#check = undefined;
    this.#droppedBytes = this.#bodyLength;
    this.#bodyLength = 0;
    this.#body = undefined;
    this.#parts.clear();
    this.#drop();
    return true;
  }

  #drop(): void {
    const end = this.#bodyEnd;
    this.#droppedBytes += end - this.#at;
    this.#at = end;
    if (this.#bodyBytes === this.#bodySize) {
      this.#isInBody = false;
      this.#droppedBytes = 0;
    }
  }

  #collectBody(): boolean {
    const chunk = this.#chunk;
    const end = this.#bodyEnd;
    const needed = this.#bodyLength + end - this.#at;
    const body = this.#body ?? this.#wholeFor(needed);
    const start = this.#bodyStart;
    if (body === undefined) {
      this.#parts.add(chunk, this.#at, end);
    } else {
      const copied = chunk.copy(body, start + this.#bodyLength, this.#at, end);
      // Each chunk causes earlier bytes of about its own length to move. Moving a quarter of 64 MiB at once would delay
      // other streams.
      this.#parts.moveTo(body, start, needed < this.#bodySize ? copied : needed);
    }
    this.#at = end;
    if (end === chunk.length && !this.#isViewed) {
      this.#chunkMemory?.copied(chunk);
    }
    this.#bodyLength = needed;
    if (body === undefined || needed < this.#bodySize) {
      return false;
    }
    // A peer that has completed a message of this size is trusted to complete others.
    this.#trustedBytes = Math.max(this.#trustedBytes, needed);
    this.#isInBody = false;
    this.#check = undefined;
    this.#body = undefined;
    this.#bodyLength = 0;
    this.source = body;
    this.start = start;
    this.end = start + needed;
    this.assembled = true;
    return true;
  }

  /** Allocates the message as a whole if enough of its bytes have arrived; otherwise returns undefined. */
  #wholeFor(arrived: number): Buffer | undefined {
    const size = this.#bodySize;
    if (size > this.#trustedBytes && arrived < wholeShare * size) {
      return undefined;
    }
    this.#body = Buffer.allocUnsafeSlow(this.#bodyStart + size);
    return this.#body;
  }
}

/** Reads four bytes, big-endian. */
function readLength(chunk: Buffer, at: number): number {
  const high = ((chunk[at] as number) << 8) | (chunk[at + 1] as number);
  const low = ((chunk[at + 2] as number) << 8) | (chunk[at + 3] as number);
  return high * 0x10000 + low;
}
