// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import { DataType } from "@dm-env-rpc/protocol";

/**
 * Every element type of the protocol: its scalar in JavaScript, what holds many
 * of them, and whether it can have bounds. The one list that the rest derives from.
 */
export interface DTypeTable {
  float32: { scalar: number; data: Float32Array };
  float64: { scalar: number; data: Float64Array };
  int8: { scalar: number; data: Int8Array };
  int32: { scalar: number; data: Int32Array };
  int64: { scalar: bigint; data: BigInt64Array };
  uint8: { scalar: number; data: Uint8Array };
  uint32: { scalar: number; data: Uint32Array };
  uint64: { scalar: bigint; data: BigUint64Array };
  bool: { scalar: boolean; data: Uint8Array };
  string: { scalar: string; data: string[] };
  proto: { scalar: Any; data: Any[] };
}

/** Name of an element type, as in NumPy; `proto` is google.protobuf.Any. */
export type DType = keyof DTypeTable;

/** dtypes whose scalar is of a type. */
type DTypeOf<S> = { [D in DType]: DTypeTable[D]["scalar"] extends S ? D : never }[DType];

/** dtypes whose scalar is a number. */
export type NumberDType = DTypeOf<number>;

/** dtypes whose scalar is a bigint. */
export type BigIntDType = DTypeOf<bigint>;

/** dtypes that can be ordered and so can have bounds. */
export type NumericDType = NumberDType | BigIntDType;

/** One element of a tensor: number, bigint for 64-bit integers, boolean, string or Any. */
export type Scalar<D extends DType = DType> = DTypeTable[D]["scalar"];

/**
 * The elements of a tensor, flat and row-major: the typed array of the dtype;
 * for `bool` a Uint8Array of zeros and ones; for `string` and `proto` an array.
 */
export type TensorData<D extends DType = DType> = DTypeTable[D]["data"];

/** What the code needs to know of a dtype at run time. */
export interface DTypeInfo<D extends DType = DType> {
  readonly dtype: D;
  /** The number of the DataType enum, which is also the field number in a Tensor's payload. */
  readonly dataType: DataType;
  /** Bytes of one element in memory; 0 for strings and protos. */
  readonly bytes: number;
  readonly kind: "float" | "int" | "bigint" | "bool" | "string" | "proto";
  /** The least and greatest value of an integer type; undefined for the others. */
  readonly range: { readonly min: Scalar<D>; readonly max: Scalar<D> } | undefined;
  /** Makes room for `length` elements: zeros, empty strings, empty Anys. */
  allocate(length: number): TensorData<D>;
  /** Whether a value is what holds elements of this dtype, whichever realm it is from. */
  holds(value: unknown): value is TensorData<D>;
}

/** Typed arrays are told apart by their tag where `instanceof` fails: another realm has its own classes. */
const tagOf = (value: unknown): string | undefined =>
  ArrayBuffer.isView(value) ? (value as unknown as Uint8Array)[Symbol.toStringTag] : undefined;

const emptyAny = (): Any => ({
  $typeName: "google.protobuf.Any",
  typeUrl: "",
  value: new Uint8Array(0),
});

/** Every dtype by name, in the order of the wire's DataType. */
export const dtypes: { readonly [D in DType]: DTypeInfo<D> } = {
  float32: {
    dtype: "float32",
    dataType: DataType.FLOAT,
    bytes: 4,
    kind: "float",
    range: undefined,
    allocate: (length) => new Float32Array(length),
    holds: (value): value is Float32Array =>
      value instanceof Float32Array || tagOf(value) === "Float32Array",
  },
  float64: {
    dtype: "float64",
    dataType: DataType.DOUBLE,
    bytes: 8,
    kind: "float",
    range: undefined,
    allocate: (length) => new Float64Array(length),
    holds: (value): value is Float64Array =>
      value instanceof Float64Array || tagOf(value) === "Float64Array",
  },
  int8: {
    dtype: "int8",
    dataType: DataType.INT8,
    bytes: 1,
    kind: "int",
    range: { min: -128, max: 127 },
    allocate: (length) => new Int8Array(length),
    holds: (value): value is Int8Array =>
      value instanceof Int8Array || tagOf(value) === "Int8Array",
  },
  int32: {
    dtype: "int32",
    dataType: DataType.INT32,
    bytes: 4,
    kind: "int",
    range: { min: -2147483648, max: 2147483647 },
    allocate: (length) => new Int32Array(length),
    holds: (value): value is Int32Array =>
      value instanceof Int32Array || tagOf(value) === "Int32Array",
  },
  int64: {
    dtype: "int64",
    dataType: DataType.INT64,
    bytes: 8,
    kind: "bigint",
    range: { min: -9223372036854775808n, max: 9223372036854775807n },
    allocate: (length) => new BigInt64Array(length),
    holds: (value): value is BigInt64Array =>
      value instanceof BigInt64Array || tagOf(value) === "BigInt64Array",
  },
  uint8: {
    dtype: "uint8",
    dataType: DataType.UINT8,
    bytes: 1,
    kind: "int",
    range: { min: 0, max: 255 },
    allocate: (length) => new Uint8Array(length),
    holds: (value): value is Uint8Array =>
      value instanceof Uint8Array || tagOf(value) === "Uint8Array",
  },
  uint32: {
    dtype: "uint32",
    dataType: DataType.UINT32,
    bytes: 4,
    kind: "int",
    range: { min: 0, max: 4294967295 },
    allocate: (length) => new Uint32Array(length),
    holds: (value): value is Uint32Array =>
      value instanceof Uint32Array || tagOf(value) === "Uint32Array",
  },
  uint64: {
    dtype: "uint64",
    dataType: DataType.UINT64,
    bytes: 8,
    kind: "bigint",
    range: { min: 0n, max: 18446744073709551615n },
    allocate: (length) => new BigUint64Array(length),
    holds: (value): value is BigUint64Array =>
      value instanceof BigUint64Array || tagOf(value) === "BigUint64Array",
  },
  bool: {
    dtype: "bool",
    dataType: DataType.BOOL,
    bytes: 1,
    kind: "bool",
    range: undefined,
    allocate: (length) => new Uint8Array(length),
    holds: (value): value is Uint8Array =>
      value instanceof Uint8Array || tagOf(value) === "Uint8Array",
  },
  string: {
    dtype: "string",
    dataType: DataType.STRING,
    bytes: 0,
    kind: "string",
    range: undefined,
    allocate: (length) => new Array<string>(length).fill(""),
    holds: (value): value is string[] => Array.isArray(value),
  },
  proto: {
    dtype: "proto",
    dataType: DataType.PROTO,
    bytes: 0,
    kind: "proto",
    range: undefined,
    allocate: (length) => Array.from({ length }, emptyAny),
    holds: (value): value is Any[] => Array.isArray(value),
  },
};

const byDataType: readonly (DType | undefined)[] = Object.values(dtypes).reduce<
  (DType | undefined)[]
>((table, { dtype, dataType }) => {
  table[dataType] = dtype;
  return table;
}, []);

/** The dtype of a wire DataType; undefined for INVALID_DATA_TYPE and unknown numbers. */
export function dtypeOf(dataType: DataType): DType | undefined {
  return byDataType[dataType];
}
