// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import type { DataType, Tensor as TensorMessage } from "@dm-env-rpc/protocol";

/** The scalar of each kind of elements. The kind decides how values are checked, drawn and bounded. */
export interface ScalarOfKind {
  float: number;
  int: number;
  bigint: bigint;
  bool: boolean;
  string: string;
  proto: Any;
}

/** The kind of a dtype's elements in JavaScript. */
export type Kind = keyof ScalarOfKind;

/** The kinds that a dtype may have: a non-numeric dtype has the kind with its own name. */
export type KindOf<D extends string> = D extends Exclude<Kind, NumericKind> ? D : NumericKind;

/** The kinds whose elements can be ordered and can therefore have bounds. */
export type NumericKind = "float" | "int" | "bigint";

/**
 * A dtype: its name `D`, the kind `K` of its elements, and the array `A` that holds them. To add a dtype, add a file
 * with a value of this type, a line in `table.ts`, and a line in `wire/encodings/table.ts`.
 */
export interface ElementType<D extends string, K extends KindOf<D>, A> {
  /** NumPy's name. */
  readonly dtype: D;
  /** The number of the DataType enum, which is also the field number in a Tensor's payload. */
  readonly dataType: DataType;
  /** Name of the field in a Tensor's payload, in the generated code. */
  readonly payload: NonNullable<TensorMessage["payload"]["case"]>;
  readonly kind: K;
  /** Bytes of one element in memory; 0 for strings and protos. */
  readonly bytes: number;
  /** The least and greatest value of an integer type; undefined for the others. */
  readonly range: { readonly min: ScalarOfKind[K]; readonly max: ScalarOfKind[K] } | undefined;
  /** Rounding of a number to an element of a narrower float; undefined for every other dtype. */
  readonly rounding: Rounding | undefined;
  /** Creates an array of `length` elements: zeros, empty strings, empty Anys. */
  allocate(length: number): A;
  /** Returns true for an array, of any realm, that holds elements of this dtype. */
  holds(value: unknown): value is A;
}

/** Rounding of a number to a narrower float. */
export interface Rounding {
  round(value: number): number;
  /** The least number that is rounded to infinity. */
  readonly overflow: number;
}

/** Returns the tag of a typed array, for arrays of another realm, where `instanceof` fails. */
export const tagOf = (value: unknown): string | undefined =>
  ArrayBuffer.isView(value) ? (value as unknown as Uint8Array)[Symbol.toStringTag] : undefined;
