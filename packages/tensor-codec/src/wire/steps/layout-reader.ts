// SPDX-License-Identifier: Apache-2.0

import type { PackedTensor } from "../../tensors/tensor.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import { readArray } from "../tensors/array-reader.ts";
import { spendBroadcast } from "../tensors/tensor-reader.ts";
import { type BorrowedScalar, borrowedScalar, readScalar } from "./borrowed-scalar.ts";
import { type EntryLayout, type Layout, Layouts, layoutOf } from "./layout.ts";
import type { UidTensor } from "./step.ts";
import type { StepCodec } from "./step-codec.ts";

/** A layout with the borrowed scalars that its messages share. */
interface ReadLayout extends Layout {
  /** The borrowed scalar of each entry; undefined for an entry whose tensor is not borrowed. */
  readonly borrowed: readonly (BorrowedScalar | undefined)[];
}

/**
 * Reads a step by the layout of an earlier one: if only the arrays and the state differ, it reads only their
 * bytes. The result is the same as if the whole message was read.
 */
export class LayoutReader<S> {
  readonly #codec: StepCodec<S>;
  readonly #borrowsScalars: boolean;
  readonly #layouts = new Layouts<ReadLayout>();

  constructor(codec: StepCodec<S>, borrowsScalars: boolean) {
    this.#codec = codec;
    this.#borrowsScalars = borrowsScalars;
  }

  /** Returns the step in the reader's bytes; undefined if its layout is unknown. */
  read(reader: Reader, options: ReadOptions): S | undefined {
    const { source, pos: start, end } = reader;
    const { recent } = this.#layouts;
    for (let i = 0; i < recent.length; i++) {
      const layout = recent[i] as ReadLayout;
      if (layout.fixed.length === end - start && layout.fixed.match(source, start)) {
        this.#layouts.recordUse(i);
        return this.#readBy(layout, reader, options);
      }
    }
    return undefined;
  }

  #readBy(layout: ReadLayout, reader: Reader, options: ReadOptions): S {
    const { source, pos: start } = reader;
    const { fixed, entries: like, requested, borrowed } = layout;
    const { gaps, stateAt } = fixed;
    const entries = new Array<UidTensor>(like.length);
    for (let i = 0; i < like.length; i++) {
      const { uid, type, shape } = like[i] as EntryLayout;
      const at = start + (gaps[2 * i] as number);
      const stop = start + (gaps[2 * i + 1] as number);
      const scalar = borrowed[i];
      if (scalar !== undefined && readScalar(source, at, stop, scalar)) {
        entries[i] = scalar.entry;
        continue;
      }
      reader.pos = at;
      reader.end = stop;
      const data = readArray(reader, type, options);
      const tensor = { dtype: type.dtype, shape, data } as PackedTensor;
      spendBroadcast(reader, tensor, options);
      entries[i] = { uid, tensor };
    }
    const state = stateAt < 0 ? layout.state : (source[start + stateAt] as number);
    return this.#codec.make(entries, state, requested);
  }

  /** Learns the layout of a message that the reader has read from `start` to `end`. */
  learn(reader: Reader, start: number, end: number, step: S): void {
    if (!this.#layouts.worthLearning) {
      return;
    }
    const message = reader.source.subarray(start, end);
    const layout = layoutOf(message, start, reader.notes, step, this.#codec);
    if (layout === undefined) {
      this.#layouts.learn(undefined);
      return;
    }
    // All messages of the layout share these arrays.
    Object.freeze(layout.requested);
    for (const { shape } of layout.entries) {
      Object.freeze(shape);
    }
    const borrowed = layout.entries.map((entry) =>
      this.#borrowsScalars ? borrowedScalar(entry) : undefined,
    );
    this.#layouts.learn({ ...layout, borrowed });
  }
}
