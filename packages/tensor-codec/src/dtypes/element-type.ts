// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import type { DataType, Tensor as TensorMessage } from "@dm-env-rpc/protocol";

/** The scalar of each kind of elements. A kind is how values are checked, drawn and bounded. */
export interface ScalarOfKind {
  float: number;
  int: number;
  bigint: bigint;
  bool: boolean;
  string: string;
  proto: Any;
}

/** What elements are to JavaScript. */
export type Kind = keyof ScalarOfKind;

/** What is not numeric is a kind by itself, called as its dtype is. */
export type KindOf<D extends string> = D extends Exclude<Kind, NumericKind> ? D : NumericKind;

/** The kinds whose elements can be ordered, and so have bounds. */
export type NumericKind = "float" | "int" | "bigint";

/**
 * All that a dtype is: its name `D`, the kind `K` of its elements, and `A`, what holds many of
 * them. A new one is a file with such a value, and a line in `table.ts`.
 */
export interface ElementType<D extends string, K extends KindOf<D>, A> {
  /** NumPy's name. */
  readonly dtype: D;
  /** The number of the DataType enum, which is also the field number in a Tensor's payload. */
  readonly dataType: DataType;
  /** That field's name in the generated code. */
  readonly payload: NonNullable<TensorMessage["payload"]["case"]>;
  readonly kind: K;
  /** Bytes of one element in memory; 0 for what is not numbers. */
  readonly bytes: number;
  /** The least and greatest value of an integer type; undefined for the others. */
  readonly range: { readonly min: ScalarOfKind[K]; readonly max: ScalarOfKind[K] } | undefined;
  /** Of floats, what a number becomes as an element; undefined where it stays what it is. */
  readonly rounding: Rounding | undefined;
  /** Makes room for `length` elements: zeros, empty strings, empty Anys. */
  allocate(length: number): A;
  /** Whether a value is what holds elements of this dtype, whichever realm it is from. */
  holds(value: unknown): value is A;
}

/** What becomes of a number in a float that is narrower. */
export interface Rounding {
  round(value: number): number;
  /** The least number that is rounded to infinity. */
  readonly overflow: number;
}

/** Typed arrays are told apart by their tag where `instanceof` fails: another realm has its own classes. */
export const tagOf = (value: unknown): string | undefined =>
  ArrayBuffer.isView(value) ? (value as unknown as Uint8Array)[Symbol.toStringTag] : undefined;
