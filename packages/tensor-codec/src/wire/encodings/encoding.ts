// SPDX-License-Identifier: Apache-2.0
import type { DType } from "../../dtypes/dtype.ts";
import type { ReadOptions } from "../primitives/read-options.ts";
import type { Reader } from "../primitives/reader.ts";
import type { Sizes } from "../primitives/sizes.ts";

/**
 * Encodes and decodes the elements of a tensor, which are the content of its `Tensor.*Array`. `A` is the type
 * of the JavaScript array that holds them.
 */
export type Encoding<A> = PackedEncoding<A> | RepeatedEncoding<A>;

/** All elements in one field: `bytes`, or packed numbers. */
export interface PackedEncoding<A> {
  readonly packed: true;
  /**
   * The wire type of an element in a field of its own (unpacked). Such an element is appended to the elements
   * before it. Undefined for `bytes`, where the last field wins.
   */
  readonly alone: number | undefined;
  /** Bytes of an element; 0 if that depends on its value. */
  readonly width: number;
  /** Returns the size of elements in bytes. */
  size(data: A): number;
  /** Writes elements that take `size` bytes in total, without tag and length; returns the position after them. */
  write(data: A, size: number, target: Uint8Array, pos: number): number;
  /** Checks one of several packed fields of an array: none may end within an element. */
  check(reader: Reader, start: number, end: number): void;
  /**
   * Refuses elements that `read` refuses because of the length of their range, before their bytes arrive. Spends no
   * work.
   */
  checkLength(reader: Reader, start: number, end: number, options: ReadOptions): void;
  /** Returns the work that `read` spends on elements of `bytes` bytes, whatever their values. */
  workOf(bytes: number): number;
  /**
   * Reads the elements from the reader's position to its end. An encoding that several dtypes share stores
   * them in an array made by `allocate`.
   */
  read(reader: Reader, options: ReadOptions, allocate: (length: number) => A): A;
  /**
   * Reads a single element of `size` bytes into `data`. Returns false without reading if the element is not
   * encoded as nearly all encoders do; `read` then reads it.
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
   * @throws TensorError `value` for a string without a UTF-8 encoding.
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
