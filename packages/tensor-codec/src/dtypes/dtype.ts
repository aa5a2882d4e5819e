// SPDX-License-Identifier: Apache-2.0
import type { DataType } from "@dm-env-rpc/protocol";
import type { ElementType, Kind, KindOf, ScalarOfKind } from "./element-type.ts";
import * as table from "./table.ts";

type ElementTypeTable = typeof table;

/**
 * Every element type of the protocol: its scalar in JavaScript, the array of its elements, and its
 * kind.
 */
export type DTypeTable = {
  [D in keyof ElementTypeTable]: {
    scalar: ScalarOfKind[ElementTypeTable[D]["kind"]];
    data: ReturnType<ElementTypeTable[D]["allocate"]>;
    kind: ElementTypeTable[D]["kind"];
  };
};

/** Name of an element type, as in NumPy; `proto` is google.protobuf.Any. */
export type DType = keyof DTypeTable;

/** dtypes whose elements have kind `K`. */
type DTypeOf<K extends Kind> = {
  [D in DType]: DTypeTable[D]["kind"] extends K ? D : never;
}[DType];

/** dtypes whose scalar is a number. */
export type NumberDType = DTypeOf<"float" | "int">;

/** dtypes whose scalar is a bigint. */
export type BigIntDType = DTypeOf<"bigint">;

/** dtypes whose elements can be ordered and can therefore have bounds. */
export type NumericDType = DTypeOf<"float" | "int" | "bigint">;

/** One element of a tensor: number, bigint for 64-bit integers, boolean, string or Any. */
export type Scalar<D extends DType = DType> = DTypeTable[D]["scalar"];

/**
 * The elements of a tensor, flat and row-major: the typed array of the dtype;
 * for `bool` a Uint8Array of zeros and ones; for `string` and `proto` an array.
 */
export type TensorData<D extends DType = DType> = DTypeTable[D]["data"];

/** The properties of a dtype at run time. */
export interface DTypeInfo<D extends DType = DType> {
  readonly dtype: D;
  /** The number of the DataType enum, which is also the field number in a Tensor's payload. */
  readonly dataType: DataType;
  /** Bytes of one element in memory; 0 for strings and protos. */
  readonly bytes: number;
  readonly kind: DTypeTable[D]["kind"];
  /** The least and greatest value of an integer type; undefined for the others. */
  readonly range: { readonly min: Scalar<D>; readonly max: Scalar<D> } | undefined;
  /** Creates an array of `length` elements: zeros, empty strings, empty Anys. */
  allocate(length: number): TensorData<D>;
  /** Returns true for an array, of any realm, that holds elements of this dtype. */
  holds(value: unknown): value is TensorData<D>;
}

/** The element type of any dtype. */
export type AnyElementType = ElementType<DType, Kind, TensorData>;

const named: { readonly [D in DType]: ElementType<D, KindOf<D>, TensorData> } = table;

const inOrder = Object.values(named).sort((a, b) => a.dataType - b.dataType);

const types = Object.fromEntries(
  inOrder.map((type) => [type.dtype, type] as const),
) as ElementTypeTable;

/** Every dtype by name, in the order of the wire's DataType. */
export const dtypes: { readonly [D in DType]: DTypeInfo<D> } = types;

/** Every dtype by name, with the fields that only this package uses. */
export const elementTypes: { readonly [D in DType]: AnyElementType } = types;

/** Returns true if the elements of a dtype can be ordered and can therefore have bounds. */
export function isNumeric(dtype: DType): dtype is NumericDType {
  const { kind } = elementTypes[dtype];
  return kind === "float" || kind === "int" || kind === "bigint";
}
