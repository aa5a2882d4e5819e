// SPDX-License-Identifier: Apache-2.0
import type { DType } from "../../dtypes/dtype.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import type { Sizes } from "../primitives/sizes.ts";

/**
 * Encodes the elements of a tensor as the bytes of its `Tensor.*Array`; `A` is the array that holds
 * them.
 */
export type Encoding<A> = PackedEncoding<A> | RepeatedEncoding<A>;

/** All elements in one field: `bytes`, or packed numbers. */
export interface PackedEncoding<A> {
  readonly packed: true;
  /**
   * The wire type of a single unpacked number, which is appended to the numbers before it; undefined for
   * `bytes`, where the last field wins.
   */
  readonly alone: number | undefined;
  /** Bytes of an element; 0 if that depends on its value. */
  readonly width: number;
  /** Returns the size of elements in bytes. */
  size(data: A): number;
  /** Writes elements of `size` bytes, without tag and length; returns the position after them. */
  write(data: A, size: number, target: Uint8Array, pos: number): number;
  /** Checks that one of several fields ends at the end of an element. */
  check(reader: Reader, start: number, end: number): void;
  /** Reads the elements from the reader's position to its end into an array made by `allocate`. */
  read(reader: Reader, options: ReadOptions, allocate: (length: number) => A): A;
  /**
   * Reads one element of `size` bytes into `data`. Returns false, having read nothing, unless it has
   * the encoding that nearly all encoders choose.
   */
  readOne(source: Uint8Array, pos: number, size: number, data: A): boolean;
}

/** Returns the size of packed elements in bytes. */
export function elementsSize<A extends ArrayLike<unknown>>(
  encoding: PackedEncoding<A>,
  data: A,
): number {
  return encoding.width > 0 ? data.length * encoding.width : encoding.size(data);
}

/** One field per element: strings and messages. */
export interface RepeatedEncoding<A> {
  readonly packed: false;
  /**
   * Measures elements with their tags and lengths, and records in `sizes` the lengths that `write` reads.
   *
   * @throws TensorError `value` for an element without an encoding.
   */
  size(tensor: RepeatedElements<A>, sizes: Sizes): number;
  /** Writes elements with their tags and lengths; returns the position after them. */
  write(data: A, sizes: Sizes, target: Uint8Array, pos: number): number;
  /** Reads the elements from the reader's position to its end. */
  read(reader: Reader, options: ReadOptions): A;
}

/** Elements, with the dtype and shape that errors name. */
export interface RepeatedElements<A> {
  readonly dtype: DType;
  readonly shape: readonly number[];
  readonly data: A;
}
