// SPDX-License-Identifier: Apache-2.0
import type { DType } from "../../dtypes/dtype.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import type { Sizes } from "../primitives/sizes.ts";

/**
 * How the elements of a tensor are the bytes of its `Tensor.*Array`, one for each way that
 * protobuf has; `A` is what holds the elements.
 */
export type Encoding<A> = PackedEncoding<A> | RepeatedEncoding<A>;

/** Elements in one field, one behind the other: `bytes`, or numbers that are packed. */
export interface PackedEncoding<A> {
  readonly packed: true;
  /**
   * The wire type of an element that comes by itself, as numbers may; undefined of `bytes`: of
   * several fields the last stands, while those of numbers are put together.
   */
  readonly alone: number | undefined;
  /** The bytes of every element; 0 where that depends on its value. */
  readonly width: number;
  /** The bytes of elements. */
  size(data: A): number;
  /** Writes elements of `size` bytes, with nothing in front of them; returns the position behind them. */
  write(data: A, size: number, target: Uint8Array, pos: number): number;
  /** Checks that an element ends where a field does that is one of several. */
  check(reader: Reader, start: number, end: number): void;
  /** The elements from the reader's position to its end; `allocate` makes room for as many. */
  read(reader: Reader, options: ReadOptions, allocate: (length: number) => A): A;
  /**
   * Reads one element of `size` bytes into `data`, as nearly all encoders write it. Returns false
   * when it is anything else, and has read nothing then.
   */
  readOne(source: Uint8Array, pos: number, size: number, data: A): boolean;
}

/** The bytes of packed elements. */
export function elementsSize<A extends ArrayLike<unknown>>(
  encoding: PackedEncoding<A>,
  data: A,
): number {
  return encoding.width > 0 ? data.length * encoding.width : encoding.size(data);
}

/** Elements in a field each: strings and messages. */
export interface RepeatedEncoding<A> {
  readonly packed: false;
  /**
   * The bytes of elements with their tags and lengths; keeps in `sizes` what `write` asks for.
   *
   * @throws TensorError `value` for what has no encoding.
   */
  size(tensor: RepeatedElements<A>, sizes: Sizes): number;
  /** Writes elements with their tags and lengths; returns the position behind them. */
  write(data: A, sizes: Sizes, target: Uint8Array, pos: number): number;
  /** The elements from the reader's position to its end. */
  read(reader: Reader, options: ReadOptions): A;
}

/** Elements, and what the error of one says of them. */
export interface RepeatedElements<A> {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data: A;
}
