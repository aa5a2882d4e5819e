// SPDX-License-Identifier: Apache-2.0

import type { PackedTensor } from "../../tensors/tensor.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import { readArray } from "../tensors/array-reader.ts";
import { type LentScalar, lentScalar, readScalar } from "./borrowed-scalar.ts";
import { type EntryLayout, type Layout, Layouts, layoutOf } from "./layout.ts";
import type { UidTensor } from "./step.ts";
import type { StepCodec } from "./step-codec.ts";

/** A layout with the tensors that its messages share. */
interface ReadLayout extends Layout {
  /** For each entry one that is filled again and again, or nothing. */
  readonly lent: readonly (LentScalar | undefined)[];
}

/**
 * Reads a step by the layout of one before it: where all bytes are the same but
 * those of the arrays and the state, only these are read.
 *
 * What reading finds depends on the bytes alone, so it is what reading the whole
 * message would find.
 */
export class LayoutReader<S> {
  private readonly codec: StepCodec<S>;
  private readonly lendsScalars: boolean;
  private readonly layouts = new Layouts<ReadLayout>();

  constructor(codec: StepCodec<S>, lendsScalars: boolean) {
    this.codec = codec;
    this.lendsScalars = lendsScalars;
  }

  /** The step in the reader's bytes; undefined when it has no layout that is known. */
  read(reader: Reader, options: ReadOptions): S | undefined {
    const { source, pos: start, end } = reader;
    const { recent } = this.layouts;
    for (let i = 0; i < recent.length; i++) {
      const layout = recent[i] as ReadLayout;
      if (layout.fixed.length === end - start && layout.fixed.match(source, start)) {
        this.layouts.paid(i);
        return this.readBy(layout, reader, options);
      }
    }
    return undefined;
  }

  private readBy(layout: ReadLayout, reader: Reader, options: ReadOptions): S {
    const { source, pos: start } = reader;
    const { fixed, entries: like, requested, lent } = layout;
    const { gaps, stateAt } = fixed;
    const entries = new Array<UidTensor>(like.length);
    for (let i = 0; i < like.length; i++) {
      const { uid, type, shape } = like[i] as EntryLayout;
      const at = start + (gaps[2 * i] as number);
      const stop = start + (gaps[2 * i + 1] as number);
      const scalar = lent[i];
      if (scalar !== undefined && readScalar(source, at, stop, scalar)) {
        entries[i] = scalar.entry;
        continue;
      }
      reader.pos = at;
      reader.end = stop;
      const data = readArray(reader, type, options);
      entries[i] = { uid, tensor: { dtype: type.dtype, shape, data } as PackedTensor };
    }
    const state = stateAt < 0 ? layout.state : (source[start + stateAt] as number);
    return this.codec.make(entries, state, requested);
  }

  /** Learns the layout of a step that the reader has read from `start` to `end`. */
  learn(reader: Reader, start: number, end: number, step: S): void {
    if (!this.layouts.worthLearning) return;
    const message = reader.source.subarray(start, end);
    const layout = layoutOf(message, start, reader.notes, step, this.codec);
    if (layout === undefined) {
      this.layouts.learn(undefined);
      return;
    }
    // Messages share them, so nobody may change them.
    Object.freeze(layout.requested);
    for (const { shape } of layout.entries) Object.freeze(shape);
    const lent = layout.entries.map((entry) => (this.lendsScalars ? lentScalar(entry) : undefined));
    this.layouts.learn({ ...layout, lent });
  }
}
