// SPDX-License-Identifier: Apache-2.0
import type { TensorData } from "../../dtypes/dtype.ts";
import { elementsSize, type PackedEncoding } from "../encodings/encoding.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import { Reader } from "../primitives/reader.ts";
import type { Uid } from "../primitives/uid.ts";
import { type EntryLayout, FixedBytes, type Layout, Layouts, layoutOf } from "./layout.ts";
import type { UidTensor } from "./step.ts";
import type { StepCodec } from "./step-codec.ts";

/** Maximum size of a message that is learned. In larger messages, the elements dominate the time. */
const maxMessageBytes = 4096;

/**
 * Maximum number of varints of an entry in a layout. To see if a layout fits, `size` measures the varints. With more of
 * them, measuring dominates the time, and is wasted if the layout does not fit.
 */
const maxVarints = 16;

/** Options for reading a message that this codec has just written. */
const noLimits: ReadOptions = {
  maxElements: Number.POSITIVE_INFINITY,
  maxStringBytes: Number.POSITIVE_INFINITY,
  maxEntries: Number.POSITIVE_INFINITY,
  maxDimensions: Number.POSITIVE_INFINITY,
  maxMessageWork: Number.POSITIVE_INFINITY,
  copy: false,
};

/** A layout whose gaps hold only elements. The tags and lengths of the arrays are fixed bytes, too. */
interface WrittenLayout extends Layout {
  /** A complete message of this layout: one copy of it is cheaper than many copies of its fixed parts. */
  readonly message: Uint8Array;
  /** Number of elements of each entry. */
  readonly counts: readonly number[];
  readonly encodings: readonly PackedEncoding<TensorData>[];
}

/**
 * Writes a step by the layout of an earlier one: if entries, shapes and lengths are the same, it copies the
 * bytes of the earlier message and overwrites only the elements and the state.
 */
export class LayoutWriter<S> {
  readonly #codec: StepCodec<S>;
  readonly #layouts = new Layouts<WrittenLayout>();
  readonly #reader = new Reader(noLimits);
  #found: WrittenLayout | undefined;

  constructor(codec: StepCodec<S>) {
    this.#codec = codec;
  }

  /** Returns the size of a message with this step, which `write` then writes; -1 if no layout fits. */
  size(step: S): number {
    const { recent } = this.#layouts;
    for (let i = 0; i < recent.length; i++) {
      const layout = recent[i] as WrittenLayout;
      if (!this.#fits(step, layout)) {
        continue;
      }
      this.#layouts.recordUse(i);
      this.#found = layout;
      return layout.fixed.length;
    }
    this.#found = undefined;
    return -1;
  }

  /** Writes the message that `size` measured; returns the position after it, or -1 if no layout fitted. */
  write(step: S, target: Uint8Array, start: number): number {
    const layout = this.#found;
    if (layout === undefined) {
      return -1;
    }
    this.#found = undefined;
    const { fixed, encodings } = layout;
    target.set(layout.message, start);
    if (fixed.stateAt >= 0) {
      target[start + fixed.stateAt] = this.#codec.stateOf(step);
    }
    const entries = this.#codec.entriesOf(step);
    for (let i = 0; i < entries.length; i++) {
      // A layout has no unset tensors.
      const data = (entries[i] as UidTensor).tensor.data as TensorData;
      const at = fixed.gaps[2 * i] as number;
      const size = (fixed.gaps[2 * i + 1] as number) - at;
      (encodings[i] as PackedEncoding<TensorData>).write(data, size, target, start + at);
    }
    return start + fixed.length;
  }

  /** Learns the layout of a message that was written from `start` to `end`. The content of its step begins at `at`. */
  learn(step: S, source: Uint8Array, start: number, at: number, end: number): void {
    if (end - start > maxMessageBytes || !this.#layouts.worthLearning) {
      return;
    }
    const codec = this.#codec;
    const reader = this.#reader;
    reader.open(source, at, end);
    reader.notes.clear();
    codec.open().read(reader, noLimits);
    reader.close();
    const message = source.subarray(start, end);
    const layout = layoutOf(message, start, reader.notes, step, codec);
    this.#layouts.learn(layout && elementsAlone(message, layout, codec.entriesOf(step)));
  }

  #fits(
    step: S,
    { fixed, entries: like, requested, state, counts, encodings }: WrittenLayout,
  ): boolean {
    const codec = this.#codec;
    const entries = codec.entriesOf(step);
    if (entries.length !== like.length) {
      return false;
    }
    if (!fitsState(codec.stateOf(step), state, fixed)) {
      return false;
    }
    for (let i = 0; i < like.length; i++) {
      const { uid, tensor } = entries[i] as UidTensor;
      const { uid: expected, type, shape } = like[i] as EntryLayout;
      if (uid !== expected || tensor.dtype !== type.dtype) {
        return false;
      }
      if (tensor.data.length !== counts[i] || !same(tensor.shape, shape)) {
        return false;
      }
      const encoding = encodings[i] as PackedEncoding<TensorData>;
      if (encoding.width > 0) {
        continue; // fixed width: equal counts have equal sizes
      }
      const size = (fixed.gaps[2 * i + 1] as number) - (fixed.gaps[2 * i] as number);
      if (encoding.size(tensor.data as TensorData) !== size) {
        return false;
      }
    }
    return same(codec.requestedOf(step), requested);
  }
}

/**
 * Returns the same layout with smaller gaps, which hold only the packed elements; undefined if an entry has strings,
 * protos or too many varints.
 */
function elementsAlone(
  message: Uint8Array,
  layout: Layout,
  entries: readonly UidTensor[],
): WrittenLayout | undefined {
  const gaps: number[] = [];
  const encodings: PackedEncoding<TensorData>[] = [];
  for (const [i, { type }] of layout.entries.entries()) {
    const { encoding } = type;
    const data = (entries[i] as UidTensor).tensor.data as TensorData;
    if (!encoding.packed) {
      return undefined;
    }
    if (encoding.width === 0 && data.length > maxVarints) {
      return undefined;
    }
    const end = layout.fixed.gaps[2 * i + 1] as number;
    gaps.push(end - elementsSize(encoding, data), end);
    encodings.push(encoding);
  }
  const fixed = FixedBytes.of(message, gaps, layout.fixed.stateAt);
  const counts = entries.map(({ tensor }) => tensor.data.length);
  return fixed && { ...layout, fixed, message: new Uint8Array(message), counts, encodings };
}

/**
 * Returns true if a state fits a layout. If the layout has a position for the state, any nonzero state of one byte
 * fits; otherwise, only the state `like`.
 */
function fitsState(state: number, like: number, { stateAt }: FixedBytes): boolean {
  return stateAt < 0 ? state === like : state > 0 && state < 0x80;
}

function same(values: readonly Uid[], like: readonly Uid[]): boolean {
  if (values.length !== like.length) {
    return false;
  }
  for (let i = 0; i < like.length; i++) {
    if (values[i] !== like[i]) {
      return false;
    }
  }
  return true;
}
