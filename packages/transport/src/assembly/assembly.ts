// SPDX-License-Identifier: Apache-2.0
import type { ArrivingMessage, Malformed } from "@dm-env-rpc/tensor-codec/wire";
import type { BufferPool } from "./buffer-pool.ts";
import { Parts } from "./parts.ts";

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

/** Starts to check a message of `size` bytes. */
export type Arriving = (size: number) => ArrivingMessage;

/**
 * Assembles messages that arrive in chunks, one after the other. Each is assembled in memory that no other message
 * shares. Memory for a whole message above 16 KiB is allocated only once a quarter of the message has arrived, or if an
 * earlier message was as long. Until then, its bytes wait in reused memory.
 *
 * A message above 64 KiB is checked while it arrives. If it is refused, its bytes are dropped, also those that arrive
 * later.
 */
export class Assembly {
  /** True while a message is incomplete. */
  isOpen = false;
  /** Position of the last message in its memory. */
  start = 0;
  end = 0;
  /** Bytes to leave free before the next message, for its alignment. */
  lead = 0;
  /** Memory of an earlier message that is no longer borrowed; the next message is stored there if it fits. */
  spare: Buffer | undefined;
  /** Bytes of the incomplete message that are stored. They are in `#parts`, in `#body`, or partly in each. */
  storedBytes = 0;

  readonly #arriving: Arriving | undefined;
  readonly #parts: Parts;
  #body: Buffer | undefined;
  #size = 0;
  /** The check of the incomplete message. */
  #check: ArrivingMessage | undefined;
  #refusal: Malformed | undefined;
  /** Bytes of a refused message that have been dropped; 0 if the message is not refused. */
  #droppedBytes = 0;
  /** A message of at most this size is allocated as a whole when its first bytes arrive. */
  #trustedBytes = firstAllocationBytes;

  /**
   * @param pool Memory for the first bytes of large messages (`Parts`).
   * @param arriving Default: messages are not checked.
   */
  constructor(pool: BufferPool, arriving: Arriving | undefined) {
    this.#parts = new Parts(pool);
    this.#arriving = arriving;
  }

  /** True while a large message is checked. */
  get isChecking(): boolean {
    return this.#check !== undefined;
  }

  /** True until the refusal of a message is taken (`takeRefusal`). */
  get isRefused(): boolean {
    return this.#refusal !== undefined;
  }

  /** Bytes of the incomplete message that have arrived, including those that were dropped; 0 between messages. */
  get arrivedBytes(): number {
    return this.storedBytes + this.#droppedBytes;
  }

  /** Bytes of the incomplete message that have not arrived; 0 between messages. */
  get missingBytes(): number {
    return this.isOpen ? this.#size - this.arrivedBytes : 0;
  }

  /**
   * Starts a message of `size` bytes, of which at least one byte is to come.
   *
   * @param isReadable False if the bytes of the message cannot be checked, because they are compressed.
   */
  open(size: number, isReadable = true): void {
    this.isOpen = true;
    this.#size = size;
    this.start = this.lead;
    this.#body = this.#takeSpare();
    if (size > checkedBytes && isReadable) {
      this.#check = this.#arriving?.(size);
    }
  }

  /**
   * Adds the bytes of a chunk from `from` to `to`, which belong to the message.
   *
   * @returns The memory of the message if it is complete. Undefined if the message is incomplete or refused
   *   (`takeRefusal`).
   */
  add(chunk: Buffer, from: number, to: number): Buffer | undefined {
    if (this.#droppedBytes > 0) {
      this.#drop(to - from);
      return undefined;
    }
    const refusal = this.#check?.add(chunk, from, to);
    if (refusal !== undefined) {
      this.#refuse(refusal, to - from);
      return undefined;
    }
    const stored = this.storedBytes + to - from;
    const body = this.#body ?? this.#wholeFor(stored);
    if (body === undefined) {
      this.#parts.add(chunk, from, to);
    } else {
      const copied = chunk.copy(body, this.start + this.storedBytes, from, to);
      // Each chunk causes earlier bytes of about its own length to move. Moving a quarter of 64 MiB at once would delay
      // other streams.
      this.#parts.moveTo(body, this.start, stored < this.#size ? copied : stored);
    }
    this.storedBytes = stored;
    if (body === undefined || stored < this.#size) {
      return undefined;
    }
    // A peer that has completed a message of this size is trusted to complete others.
    this.#trustedBytes = Math.max(this.#trustedBytes, stored);
    this.end = this.start + stored;
    this.#close();
    return body;
  }

  /** Returns the refusal of the message whose rest is dropped, once. */
  takeRefusal(): Malformed | undefined {
    const refusal = this.#refusal;
    this.#refusal = undefined;
    return refusal;
  }

  /** Drops the incomplete message and the spare memory. */
  clear(): void {
    this.#parts.clear();
    this.#refusal = undefined;
    this.#close();
    this.spare = undefined;
  }

  #close(): void {
    this.isOpen = false;
    this.#check = undefined;
    this.#body = undefined;
    this.storedBytes = 0;
    this.#droppedBytes = 0;
  }

  /** Drops what has arrived of the message. */
  #refuse(refusal: Malformed, bytes: number): void {
    this.#refusal = refusal;
    this.#check = undefined;
    this.#body = undefined;
    this.#parts.clear();
    this.#droppedBytes = this.storedBytes;
    this.storedBytes = 0;
    this.#drop(bytes);
  }

  #drop(bytes: number): void {
    this.#droppedBytes += bytes;
    if (this.#droppedBytes === this.#size) {
      this.#close();
    }
  }

  #takeSpare(): Buffer | undefined {
    const { spare } = this;
    this.spare = undefined;
    const needed = this.start + this.#size;
    return spare !== undefined && needed <= spare.length && spare.length <= maxSpare * needed
      ? spare
      : undefined;
  }

  /** Allocates the message as a whole if enough of its bytes have arrived; otherwise returns undefined. */
  #wholeFor(arrived: number): Buffer | undefined {
    const size = this.#size;
    if (size > this.#trustedBytes && arrived < wholeShare * size) {
      return undefined;
    }
    this.#body = Buffer.allocUnsafeSlow(this.start + size);
    return this.#body;
  }
}
