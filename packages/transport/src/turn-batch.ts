// SPDX-License-Identifier: Apache-2.0

/** Larger chunks take so long themselves that nothing is gained by keeping them. */
const smallBytes = 4 * 1024;

/** So many chunks in a turn, on average, are worth delivering together. */
const worthwhile = 4;

/** Chunks after which the average is looked at; in a trial, after fewer. */
const chunksOn = 1024;
const chunksOfTrial = 64;
const chunksOff = 2048;

/** As it is now: whoever puts another in its place for a while must not keep a batch from its end. */
const later = setImmediate;

/**
 * Streams whose messages may be delivered together at the end of a turn of the event loop.
 *
 * Where many streams get a small chunk in the same turn, node:http2 then reads for all of them in a row,
 * and we work for all of them in a row, so that neither finds its code and data gone from the processor's
 * caches each time. Few streams are better off when each is delivered to at once. Which it is, is
 * tried now and then.
 *
 * What a peer sent right before it reset a stream may be dropped in a batch, and a receiver may be called in
 * the asynchronous context (`AsyncLocalStorage`) of another stream; whoever awaits a promise keeps his own.
 */
export interface TurnBatch {
  /** Whether a chunk of so many bytes waits for the end of the turn; `deliver` is called then. */
  takes(bytes: number, deliver: () => void): boolean;
}

/** Makes a batch, for streams that are used by the same program. */
export function createTurnBatch(): TurnBatch {
  return new Batch();
}

class Batch implements TurnBatch {
  #isOn = false;
  /** Chunks until the next look, or the next trial. */
  #left = chunksOfTrial;
  /** Since the last look: chunks that waited, and turns at whose end they were delivered. */
  #chunks = 0;
  #turns = 0;
  #waiting: (() => void)[] = [];

  takes(bytes: number, deliver: () => void): boolean {
    if (bytes > smallBytes) return false;
    this.#left -= 1;
    if (!this.#isOn) {
      if (this.#left > 0) return false;
      this.#isOn = true;
      this.#left = chunksOfTrial;
    }
    if (this.#waiting.length === 0) later(this.#deliver);
    this.#waiting.push(deliver);
    return true;
  }

  readonly #deliver = (): void => {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#chunks += waiting.length;
    this.#turns += 1;
    if (this.#left <= 0) this.#look();
    let next = 0;
    try {
      while (next < waiting.length) (waiting[next++] as () => void)();
    } finally {
      // That one throws is no reason to leave out the others.
      for (; next < waiting.length; next++) later(waiting[next] as () => void);
    }
  };

  #look(): void {
    this.#isOn = this.#chunks >= worthwhile * this.#turns;
    this.#left = this.#isOn ? chunksOn : chunksOff;
    this.#chunks = 0;
    this.#turns = 0;
  }
}
