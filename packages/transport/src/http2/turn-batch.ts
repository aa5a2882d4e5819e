// SPDX-License-Identifier: Apache-2.0
import { AsyncResource } from "node:async_hooks";

/** A larger chunk takes so long by itself that the turn's others save nothing by waiting. */
const smallBytes = 4 * 1024;

/** Number of consecutive chunks that are looked at together. */
const windowChunks = 32;

/** If the chunks of a window are from at least this many streams, the chunks of the next window wait. */
const leastStreams = 12;

/**
 * Delivers small chunks of many connections together, at the end of the event-loop turn in which they arrived.
 *
 * A program with 64 connections writes an action on each when its observation arrives. The server then answers the first
 * ones while the program still reads the others, and both sides take many turns of few chunks. Delivered together, the
 * chunks are also answered together, and the turns of both sides are larger. If only a few connections receive chunks,
 * waiting costs more than it saves (decision record 12).
 */
export class TurnBatch {
  /** Number of the current window. */
  #window = 0;
  /** Chunks in the current window, and the streams that received them. */
  #chunks = 0;
  #streams = 0;
  #isOn = false;
  #waiting: BatchedStream[] = [];

  /**
   * Returns true if a chunk of `bytes` bytes waits until the end of the turn; the batch then calls the stream's
   * `deliver`. Returns false if the chunk is to be delivered now.
   */
  takes(bytes: number, stream: BatchedStream): boolean {
    if (stream.window !== this.#window) {
      stream.window = this.#window;
      this.#streams += 1;
    }
    this.#chunks += 1;
    if (this.#chunks === windowChunks) {
      this.#isOn = this.#streams >= leastStreams;
      this.#window += 1;
      this.#chunks = 0;
      this.#streams = 0;
    }
    if (!this.#isOn || bytes > smallBytes) {
      return false;
    }
    if (this.#waiting.length === 0) {
      setImmediate(this.#deliver);
    }
    this.#waiting.push(stream);
    return true;
  }

  readonly #deliver = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    let next = 0;
    try {
      for (const stream of waiting) {
        next += 1;
        stream.deliver();
      }
    } finally {
      // If a receiver throws, the others still receive their messages.
      for (const stream of waiting.slice(next)) {
        setImmediate(() => stream.deliver());
      }
    }
  };
}

/** A stream in a batch. */
export class BatchedStream {
  /** The last window in which the stream received a chunk; written by the batch. */
  window = -1;
  readonly #batch: TurnBatch;
  readonly #deliver: () => void;
  /** The asynchronous context in which the stream was opened, in which node:http2 emits its chunks, too. */
  readonly #context = new AsyncResource("DmEnvRpcStream");
  #isWaiting = false;

  /** @param deliver Delivers what the stream has received. */
  constructor(batch: TurnBatch, deliver: () => void) {
    this.#batch = batch;
    this.#deliver = deliver;
  }

  /**
   * Returns true if a chunk of `bytes` bytes is delivered at the end of the turn. Returns false if it is to be delivered
   * now, like the second chunk of a turn, which is then delivered together with the first.
   */
  waits(bytes: number): boolean {
    this.#isWaiting = !this.#isWaiting && this.#batch.takes(bytes, this);
    return this.#isWaiting;
  }

  /** Delivers the chunk that waits, if any. */
  deliver(): void {
    if (this.#isWaiting) {
      this.#isWaiting = false;
      this.#context.runInAsyncScope(this.#deliver);
    }
  }
}
