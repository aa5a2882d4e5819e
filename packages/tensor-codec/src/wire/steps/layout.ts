// SPDX-License-Identifier: Apache-2.0
import type { DType } from "../../dtypes/dtype.ts";
import { type EncodedType, encodedTypes } from "../encodings/table.ts";
import type { LayoutNotes } from "../primitives/layout-notes.ts";
import type { Uid } from "../primitives/uid.ts";
import type { StepCodec } from "./step-codec.ts";

/** A layout with more bytes than this outside of its arrays is not kept. */
const MAX_FIXED_BYTES = 1024;

/** A message's bytes but for the state and those in some gaps, which differ from message to message. */
export class FixedBytes {
  /** Bytes of a message. */
  readonly length: number;
  /** Pairs of positions from the message's beginning: a start and an end each, in their order. */
  readonly gaps: readonly number[];
  /** Where the state is, one byte that may be any up to 127; -1 without. */
  readonly stateAt: number;
  private readonly positions: Int32Array;
  private readonly bytes: Uint8Array;

  private constructor(
    message: Uint8Array,
    gaps: readonly number[],
    stateAt: number,
    positions: readonly number[],
  ) {
    this.length = message.length;
    this.gaps = gaps;
    this.stateAt = stateAt;
    this.positions = Int32Array.from(positions);
    this.bytes = Uint8Array.from(positions, (position) => message[position] as number);
  }

  /** Takes them from a message; undefined when there are too many. Positions count from its beginning. */
  static of(message: Uint8Array, gaps: readonly number[], stateAt: number): FixedBytes | undefined {
    const positions: number[] = [];
    let position = 0;
    for (let i = 0; i <= gaps.length; i += 2) {
      for (const stop = gaps[i] ?? message.length; position < stop; position++) {
        if (positions.length === MAX_FIXED_BYTES) return undefined;
        if (position !== stateAt) positions.push(position);
      }
      position = gaps[i + 1] ?? position;
    }
    return new FixedBytes(message, gaps, stateAt, positions);
  }

  /** Whether a message of as many bytes has the same bytes outside of the gaps, and a state of one byte. */
  match(source: Uint8Array, start: number): boolean {
    const { positions, bytes, stateAt } = this;
    // Messages nearly always match: looking at all bytes costs less than a branch for each.
    let difference = 0;
    for (let i = 0; i < bytes.length; i++) {
      difference |= (source[start + (positions[i] as number)] as number) ^ (bytes[i] as number);
    }
    return difference === 0 && (stateAt < 0 || (source[start + stateAt] as number) < 0x80);
  }
}

/** What is the same in the entries of messages of one layout. */
export interface EntryLayout {
  readonly uid: Uid;
  readonly type: EncodedType;
  readonly shape: readonly number[];
}

/** What messages of one layout have in common. */
export interface Layout {
  readonly fixed: FixedBytes;
  readonly entries: readonly EntryLayout[];
  readonly requested: readonly Uid[];
  /** The state of the message that it was taken from. */
  readonly state: number;
}

/** The layout of a message that stood at `start` of what was read; undefined where it is not regular. */
export function layoutOf<S>(
  message: Uint8Array,
  start: number,
  notes: LayoutNotes,
  step: S,
  codec: StepCodec<S>,
): Layout | undefined {
  if (!notes.regular) return undefined;
  const gaps = notes.arrays.map((position) => position - start);
  const stateAt = notes.stateAt < 0 ? -1 : notes.stateAt - start;
  const fixed = FixedBytes.of(message, gaps, stateAt);
  if (fixed === undefined) return undefined;
  return {
    fixed,
    state: codec.stateOf(step),
    requested: codec.requestedOf(step).slice(),
    entries: codec.entriesOf(step).map(({ uid, tensor }) => ({
      uid,
      // Of a regular message each entry has a payload.
      type: encodedTypes[tensor.dtype as DType],
      shape: tensor.shape.slice(),
    })),
  };
}

/** Layouts are learned at once until so many of them came to nothing, then now and then. */
const PATIENCE = 16;
const PAUSE = 1024;
/** Layouts that are kept: a server's codec is for the agents of all its worlds. */
const KEPT = 16;
/** Of these the first half are kept as long as they are found more often than others are learned. */
const FIRST = KEPT / 2;

/** The layouts that messages had lately. */
export class Layouts<L> {
  readonly recent: L[] = [];
  private next = 0;
  private promoted = 0;
  private fruitless = 0;
  private skipped = 0;

  /** A message had a layout that is kept: the one with this index, which is another's then. */
  paid(index: number): void {
    if (this.fruitless > 0) this.fruitless--;
    if (index < FIRST) return;
    const found = this.recent[index] as L;
    this.recent[index] = this.recent[this.promoted] as L;
    this.recent[this.promoted] = found;
    this.promoted = (this.promoted + 1) % FIRST;
  }

  /** Whether learning a layout is worth while: not where hardly any message has that of another. */
  get worthLearning(): boolean {
    if (this.fruitless < PATIENCE) return true;
    this.skipped = (this.skipped + 1) % PAUSE;
    return this.skipped === 0;
  }

  /** Keeps a layout in place of the oldest that was not found again; undefined is one that cannot be kept. */
  learn(layout: L | undefined): void {
    this.fruitless++;
    if (layout === undefined) return;
    if (this.recent.length < KEPT) {
      this.recent.push(layout);
      return;
    }
    this.recent[FIRST + this.next] = layout;
    this.next = (this.next + 1) % FIRST;
  }
}
