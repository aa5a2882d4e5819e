// SPDX-License-Identifier: Apache-2.0
import { type DType, elementTypes, type TensorData } from "../../dtypes/dtype.ts";
import { anys } from "./anys.ts";
import { bools } from "./bools.ts";
import { signedBytes, unsignedBytes } from "./bytes.ts";
import type { Encoding } from "./encoding.ts";
import { floats32, floats64 } from "./floats.ts";
import { strings } from "./strings.ts";
import { varints32 } from "./varints32.ts";
import { varints64 } from "./varints64.ts";

/** The encoding of each dtype. */
const encodings: { readonly [D in DType]: Encoding<TensorData<D>> } = {
  float32: floats32,
  float64: floats64,
  int8: signedBytes,
  int32: varints32(),
  int64: varints64(),
  uint8: unsignedBytes,
  uint32: varints32(),
  uint64: varints64(),
  bool: bools,
  string: strings,
  proto: anys,
};

/** A dtype with its encoding, for readers and writers. */
export interface EncodedType {
  readonly dtype: DType;
  /** The field of `Tensor.payload` that holds its elements. */
  readonly field: number;
  readonly encoding: Encoding<TensorData>;
  /** Allocates an array of `length` elements. */
  allocate(length: number): TensorData;
}

/** Every dtype with its encoding, by name. */
export const encodedTypes: { readonly [D in DType]: EncodedType } = Object.fromEntries(
  Object.values(elementTypes).map(({ dtype, dataType, allocate }): [DType, EncodedType] => [
    dtype,
    { dtype, field: dataType, encoding: encodings[dtype] as Encoding<TensorData>, allocate },
  ]),
) as Record<DType, EncodedType>;

/** Every dtype with its encoding, by field number of `Tensor.payload`; other numbers are undefined. */
export const typeOfField: readonly (EncodedType | undefined)[] = Object.values(encodedTypes).reduce<
  (EncodedType | undefined)[]
>((types, type) => {
  types[type.field] = type;
  return types;
}, []);
