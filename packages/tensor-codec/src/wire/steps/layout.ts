// SPDX-License-Identifier: Apache-2.0
import type { DType } from "../../dtypes/dtype.ts";
import { type EncodedType, encodedTypes } from "../encodings/table.ts";
import type { LayoutNotes } from "../primitives/layout-notes.ts";
import type { Uid } from "../primitives/uid.ts";
import type { StepCodec } from "./step-codec.ts";

/** Maximum number of fixed bytes (outside of the arrays) of a layout that is learned. */
const maxFixedBytes = 1024;

/**
 * The bytes that all messages of a layout share. The other bytes are the state and the gaps. Each entry has a gap: the
 * range of bytes that holds its elements.
 */
export class FixedBytes {
  /** Number of bytes of a message, including the gaps. */
  readonly length: number;
  /** Start and end of each gap, in order. All positions count from the first byte of the message. */
  readonly gaps: readonly number[];
  /** Position of the state, which is one byte up to 127; -1 if the messages have no state, or a longer one. */
  readonly stateAt: number;
  readonly #positions: Int32Array;
  readonly #bytes: Uint8Array;

  private constructor(
    message: Uint8Array,
    gaps: readonly number[],
    stateAt: number,
    positions: readonly number[],
  ) {
    this.length = message.length;
    this.gaps = gaps;
    this.stateAt = stateAt;
    this.#positions = Int32Array.from(positions);
    this.#bytes = Uint8Array.from(positions, (position) => message[position] as number);
  }

  /** Copies the fixed bytes of a message; undefined if there are more than `maxFixedBytes`. */
  static of(message: Uint8Array, gaps: readonly number[], stateAt: number): FixedBytes | undefined {
    const positions: number[] = [];
    let position = 0;
    for (let i = 0; i <= gaps.length; i += 2) {
      for (const stop = gaps[i] ?? message.length; position < stop; position++) {
        if (positions.length === maxFixedBytes) {
          return undefined;
        }
        if (position !== stateAt) {
          positions.push(position);
        }
      }
      position = gaps[i + 1] ?? position;
    }
    return new FixedBytes(message, gaps, stateAt, positions);
  }

  /**
   * Returns true if a message has these fixed bytes, and a state of one byte. The message begins at `start` and must
   * have this `length`.
   */
  match(source: Uint8Array, start: number): boolean {
    const positions = this.#positions;
    const bytes = this.#bytes;
    const { stateAt } = this;
    // Messages nearly always match, so comparing all bytes is faster than a branch for each.
    let difference = 0;
    for (let i = 0; i < bytes.length; i++) {
      difference |= (source[start + (positions[i] as number)] as number) ^ (bytes[i] as number);
    }
    return difference === 0 && (stateAt < 0 || (source[start + stateAt] as number) < 0x80);
  }
}

/** The parts of an entry that messages of one layout share. */
export interface EntryLayout {
  readonly uid: Uid;
  readonly type: EncodedType;
  readonly shape: readonly number[];
}

/** The parts that all messages of a layout share. */
export interface Layout {
  readonly fixed: FixedBytes;
  readonly entries: readonly EntryLayout[];
  readonly requested: readonly Uid[];
  /** The state of the message that the layout was learned from; if `fixed.stateAt` is -1, all messages have it. */
  readonly state: number;
}

/**
 * Returns the layout of a message that was read from position `start` of its source; undefined if the message is
 * irregular or has too many fixed bytes.
 */
export function layoutOf<S>(
  message: Uint8Array,
  start: number,
  notes: LayoutNotes,
  step: S,
  codec: StepCodec<S>,
): Layout | undefined {
  if (!notes.regular) {
    return undefined;
  }
  const gaps = notes.arrays.map((position) => position - start);
  const stateAt = notes.stateAt < 0 ? -1 : notes.stateAt - start;
  const fixed = FixedBytes.of(message, gaps, stateAt);
  if (fixed === undefined) {
    return undefined;
  }
  return {
    fixed,
    state: codec.stateOf(step),
    requested: codec.requestedOf(step).slice(),
    entries: codec.entriesOf(step).map(({ uid, tensor }) => ({
      uid,
      // In a regular message, each entry has a payload.
      type: encodedTypes[tensor.dtype as DType],
      shape: tensor.shape.slice(),
    })),
  };
}

/** Number of fruitless attempts to learn after which only one in `messagesPerTry` messages is learned. */
const maxFruitless = 16;
const messagesPerTry = 1024;
/** Number of layouts in memory. The codec of a server reads the messages of the agents of all its worlds. */
const maxLayouts = 16;
/** Number of proven layouts, which are first in `recent`. Only a layout that is found again replaces one of them. */
const provenLayouts = maxLayouts / 2;

/** The layouts of recent messages. */
export class Layouts<L> {
  readonly recent: L[] = [];
  /** Index of the layout to replace next, among those that are not proven. */
  #next = 0;
  /** Index of the proven layout to replace next. */
  #promoted = 0;
  /** Calls of `learn` minus calls of `recordUse`, at least 0. */
  #fruitless = 0;
  /** Messages that were not learned since the last one that was. */
  #skipped = 0;

  /** Records that a message had the layout at this index. May reorder the layouts. */
  recordUse(index: number): void {
    if (this.#fruitless > 0) {
      this.#fruitless--;
    }
    if (index < provenLayouts) {
      return;
    }
    const found = this.recent[index] as L;
    this.recent[index] = this.recent[this.#promoted] as L;
    this.recent[this.#promoted] = found;
    this.#promoted = (this.#promoted + 1) % provenLayouts;
  }

  /**
   * True if the next message is to be learned. While learned layouts are hardly ever used, it is true for only one in
   * `messagesPerTry` messages.
   */
  get worthLearning(): boolean {
    if (this.#fruitless < maxFruitless) {
      return true;
    }
    this.#skipped = (this.#skipped + 1) % messagesPerTry;
    return this.#skipped === 0;
  }

  /**
   * Adds a layout. If the memory is full, the layout replaces one of those that are not proven, each in turn. Pass
   * undefined for a message without a usable layout.
   */
  learn(layout: L | undefined): void {
    this.#fruitless++;
    if (layout === undefined) {
      return;
    }
    if (this.recent.length < maxLayouts) {
      this.recent.push(layout);
      return;
    }
    this.recent[provenLayouts + this.#next] = layout;
    this.#next = (this.#next + 1) % provenLayouts;
  }
}
