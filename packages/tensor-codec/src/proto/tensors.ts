// SPDX-License-Identifier: Apache-2.0
import { create, ScalarType } from "@bufbuild/protobuf";
import { type DataType, type Tensor as TensorMessage, TensorSchema } from "@dm-env-rpc/protocol";
import { type AnyElementType, type DType, elementTypes, type TensorData } from "../dtypes/dtype.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { storeElements } from "../tensors/elements.ts";
import type { PackedTensor } from "../tensors/tensor.ts";

/** The payload of a generated Tensor. */
export type TensorPayload = TensorMessage["payload"];

const dtypeOfNumber = new Map<DataType, DType>(
  Object.values(elementTypes).map(({ dataType, dtype }) => [dataType, dtype]),
);

/** The dtype of a wire DataType; undefined for INVALID_DATA_TYPE and unknown numbers. */
export function dtypeOf(dataType: DataType): DType | undefined {
  return dtypeOfNumber.get(dataType);
}

const dtypeOfCase = new Map<string | undefined, DType>(
  Object.values(elementTypes).map(({ payload, dtype }) => [payload, dtype]),
);

/**
 * The generated message of a tensor, for the requests and responses that carry
 * settings and properties. Data is copied, bytes excepted. The generated code keeps
 * floats as numbers: the payload of a NaN does not survive it.
 */
export function packTensor(tensor: PackedTensor): TensorMessage {
  return create(TensorSchema, {
    shape: [...tensor.shape],
    payload: payloadOf(tensor.dtype, tensor.data),
  } as Pick<TensorMessage, "shape" | "payload">);
}

/**
 * The tensor of a generated message, as it travelled: `unpack` it to infer a
 * variable dimension or spread a single element. Data is copied, that of uint8 excepted.
 *
 * @throws TensorError `dtype` without payload; `value` for an element that its type
 * cannot hold, which a message that was decoded never has.
 */
export function unpackTensor(message: TensorMessage): PackedTensor {
  const { payload, shape } = message;
  const dtype = dtypeOfCase.get(payload.case);
  if (dtype === undefined) {
    throw new TensorError({
      reason: "dtype",
      expected: "a Tensor with a payload",
      received: "one without",
    });
  }
  return { dtype, shape: [...shape], data: dataOf(dtype, payload) } as PackedTensor;
}

/** The payload of a Tensor or, of a numeric dtype, of a bound. */
export function payloadOf(dtype: DType, data: TensorData): TensorPayload {
  const { payload, kind } = elementTypes[dtype];
  const array =
    kind === "bool"
      ? Array.from(data as Uint8Array, (value) => value !== 0)
      : isBytes(payload) && ArrayBuffer.isView(data)
        ? memoryOf(data)
        : Array.from<unknown>(data);
  const $typeName = TensorSchema.field[payload].message?.typeName;
  return { case: payload, value: { $typeName, array } } as TensorPayload;
}

/** The elements of a payload that is of a dtype. */
export function dataOf(dtype: DType, message: { readonly value?: unknown }): TensorData {
  const { array } = message.value as { array: ArrayLike<unknown> };
  const type = elementTypes[dtype];
  const { payload, allocate, bytes, holds } = type;
  if (isBytes(payload) && array instanceof Uint8Array) {
    const whole: unknown = array;
    if (holds(whole)) return whole;
    const data = allocate(array.length / bytes);
    if (ArrayBuffer.isView(data)) memoryOf(data).set(array);
    return data;
  }
  const data = allocate(array.length);
  storeElements(type, data, 0, array, { dtype, shape: [array.length] });
  return data;
}

/** Whether the generated code has the elements of a payload as bytes. */
function isBytes(payload: AnyElementType["payload"]): boolean {
  return TensorSchema.field[payload].message?.field["array"]?.scalar === ScalarType.BYTES;
}

const memoryOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** The dtype of a payload's case; undefined for none and for legacy scalars. */
export function dtypeOfPayload(payload: { readonly case: string | undefined }): DType | undefined {
  return dtypeOfCase.get(payload.case);
}
