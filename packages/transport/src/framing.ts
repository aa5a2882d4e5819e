// SPDX-License-Identifier: Apache-2.0
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { ChunkMemory } from "./chunk-memory.ts";

const headerBytes = 5;
const noBytes: Buffer = Buffer.alloc(0);

/** The first allocation for a message that is not whole yet; more only as bytes come. */
const firstAllocationBytes = 16 * 1024;

/**
 * What a chunk costs beside its bytes (an object and an ArrayBuffer), so that a
 * peer that sends byte by byte is held to the same bound as any other.
 */
const chunkOverheadBytes = 256;

/** Spare memory is given up when it is this many times as large as what is needed. */
const maxSpare = 4;

/**
 * Cuts a stream of bytes into gRPC's length-prefixed messages.
 *
 * `push` takes chunks as they come, `next` finds the messages in them one by one.
 * A message that lies in one chunk is not copied; one that spans several is put
 * together in memory of its own, which no other message shares (`spare` was another's, and
 * is not any more). That memory grows as bytes come: a length that is announced costs nothing until a message of that length
 * has come whole once.
 */
export class Deframer {
  /** The bytes of the message that `next` found, from `start` to `end`. */
  source: Buffer = noBytes;
  start = 0;
  end = 0;
  /** Whether that message is compressed. */
  compressed = false;
  /** Whether it was put together from several chunks, in memory of its own. */
  assembled = false;
  /** Bytes to leave free in front of the next message that is put together, for its alignment. */
  lead = 0;
  /** Memory that nobody looks at any more, for the next message that is put together, if it suits. */
  spare: Buffer | undefined;
  /** Why the stream cannot be read any further, once `next` has found that out. */
  failure: DmEnvRpcError | undefined;

  readonly #maxMessageBytes: number;
  #chunk: Buffer = noBytes;
  #at = 0;
  /** Whether a message was found that is a view of the chunk. */
  #isViewed = false;
  readonly #chunkMemory: ChunkMemory | undefined;
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #flags = 0;
  #headerLength = 0;
  #body: Buffer | undefined;
  #bodyLength = 0;
  #bodySize = 0;
  #bodyStart = 0;
  #trustedBytes = firstAllocationBytes;

  /** @param freesChunks Whether the memory of chunks is freed that were copied (`ChunkMemory`). Default false. */
  constructor(maxMessageBytes: number, freesChunks: boolean = false) {
    this.#maxMessageBytes = maxMessageBytes;
    this.#chunkMemory = freesChunks ? new ChunkMemory() : undefined;
  }

  /** Bytes that were pushed and are in no message yet, with what keeping them costs. */
  get bufferedBytes(): number {
    return this.#waitingBytes + (this.#chunk.length - this.#at) + this.#bodyLength;
  }

  /** Whether what was pushed ends inside a message, once `next` has returned false. */
  get isInsideMessage(): boolean {
    return this.#headerLength > 0 || this.#body !== undefined;
  }

  /** Takes bytes that follow those already pushed; they must not change any more. */
  push(chunk: Buffer): void {
    if (this.#at === this.#chunk.length && this.#waiting.length === 0) {
      this.#chunk = chunk;
      this.#at = 0;
      this.#isViewed = false;
      return;
    }
    this.#waiting.push(chunk);
    this.#waitingBytes += chunk.length + chunkOverheadBytes;
  }

  /** Finds the next whole message; false when there is none yet, or never will be (`failure`). */
  next(): boolean {
    while (this.failure === undefined) {
      if (this.#at === this.#chunk.length && !this.#nextChunk()) {
        return false;
      }
      if (this.#body !== undefined) {
        if (this.#collectBody(this.#body)) {
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
        this.source = chunk;
        this.start = at;
        this.end = end;
        this.assembled = false;
        this.#at = end;
        this.#isViewed = true;
        return true;
      }
      this.#bodyStart = this.lead;
      this.#body = this.#takeSpare() ?? this.#allocate();
      this.#bodyLength = 0;
    }
    return false;
  }

  /** Forgets everything that was pushed. */
  clear(): void {
    this.source = noBytes;
    this.start = 0;
    this.end = 0;
    this.#chunk = noBytes;
    this.#at = 0;
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.#headerLength = 0;
    this.#body = undefined;
    this.#bodyLength = 0;
    this.spare = undefined;
  }

  #allocate(): Buffer {
    return Buffer.allocUnsafeSlow(this.#bodyStart + Math.min(this.#bodySize, this.#trustedBytes));
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
      // What was read must not be kept alive by a stream that has gone quiet.
      this.#chunk = noBytes;
      this.source = noBytes;
      return false;
    }
    this.#waitingBytes -= next.length + chunkOverheadBytes;
    this.#chunk = next;
    this.#isViewed = false;
    return true;
  }

  /** Takes what the chunk has of the five bytes in front of a message. */
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

  /** Checks what stands in front of a message. */
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
      this.failure = tooLarge(`${this.#bodySize} bytes`, this.#maxMessageBytes);
      return false;
    }
    this.compressed = this.#flags === 1;
    return true;
  }

  #collectBody(started: Buffer): boolean {
    const length = Math.min(this.#bodySize - this.#bodyLength, this.#chunk.length - this.#at);
    const needed = this.#bodyLength + length;
    let body = started;
    const start = this.#bodyStart;
    if (start + needed > body.length) {
      const room = Math.min(this.#bodySize, Math.max(needed, 2 * body.length));
      body = Buffer.allocUnsafeSlow(start + room);
      started.copy(body, start, start, start + this.#bodyLength);
      this.#body = body;
    }
    this.#chunk.copy(body, start + this.#bodyLength, this.#at, this.#at + length);
    this.#at += length;
    if (this.#at === this.#chunk.length && !this.#isViewed) {
      this.#chunkMemory?.copied(this.#chunk);
    }
    this.#bodyLength = needed;
    if (needed < this.#bodySize) {
      return false;
    }
    // A peer that has sent a message of this size once may make us allocate as much again.
    this.#trustedBytes = Math.max(this.#trustedBytes, needed);
    this.#body = undefined;
    this.#bodyLength = 0;
    this.source = body;
    this.start = start;
    this.end = start + needed;
    this.assembled = true;
    return true;
  }
}

/** Four bytes, big-endian. */
function readLength(chunk: Buffer, at: number): number {
  const high = ((chunk[at] as number) << 8) | (chunk[at + 1] as number);
  const low = ((chunk[at + 2] as number) << 8) | (chunk[at + 3] as number);
  return high * 0x10000 + low;
}

/** The error for a message beyond the limit; `came` says how large it is, as far as known. */
export function tooLarge(came: string, maxMessageBytes: number): DmEnvRpcError {
  return new DmEnvRpcError(
    "RESOURCE_EXHAUSTED",
    `message too large: expected at most ${maxMessageBytes} bytes, received ${came}; send less in one message or raise maxMessageBytes`,
    { origin: "client" },
  );
}
