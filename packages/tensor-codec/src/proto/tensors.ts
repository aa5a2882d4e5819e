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

/** Returns the dtype of a wire DataType; undefined for INVALID_DATA_TYPE and unknown numbers. */
export function dtypeOf(dataType: DataType): DType | undefined {
  return dtypeOfNumber.get(dataType);
}

const dtypeOfCase = new Map<string | undefined, DType>(
  Object.values(elementTypes).map(({ payload, dtype }) => [payload, dtype]),
);

/**
 * Packs a tensor into its generated message, as settings and properties carry it. Data is copied,
 * except that the message shares the memory of int8 and uint8 data. Generated code holds floats as numbers,
 * so the payload of a NaN is lost.
 */
export function packTensor(tensor: PackedTensor): TensorMessage {
  return create(TensorSchema, {
    shape: [...tensor.shape],
    payload: payloadOf(tensor.dtype, tensor.data),
  } as Pick<TensorMessage, "shape" | "payload">);
}

/**
 * Unpacks the tensor in a generated message: `unpack` the result to infer a variable dimension or
 * to broadcast a single element. Data is copied, except that the tensor shares the memory of uint8 data.
 *
 * @throws TensorError `dtype` if the payload is unset; `value` for an element that its dtype cannot hold, which
 * only a message built by hand has.
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

/** Returns the payload of a Tensor, or of a bound if the dtype is numeric. */
export function payloadOf(dtype: DType, data: TensorData): TensorPayload {
  const { payload, kind } = elementTypes[dtype];
  const array =
    kind === "bool"
      ? Array.from(data as Uint8Array, (value) => value !== 0)
      : isBytes(payload) && ArrayBuffer.isView(data)
        ? memoryOf(data)
        : Array.from<unknown>(data);
  const typeName = TensorSchema.field[payload].message?.typeName;
  return { case: payload, value: { $typeName: typeName, array } } as TensorPayload;
}

/** Returns the elements of a payload of the given dtype. */
export function dataOf(dtype: DType, message: { readonly value?: unknown }): TensorData {
  const { array } = message.value as { array: ArrayLike<unknown> };
  const type = elementTypes[dtype];
  const { payload, allocate, bytes, holds } = type;
  if (isBytes(payload) && array instanceof Uint8Array) {
    const whole: unknown = array;
    if (holds(whole)) {
      return whole;
    }
    const data = allocate(array.length / bytes);
    if (ArrayBuffer.isView(data)) {
      memoryOf(data).set(array);
    }
    return data;
  }
  const data = allocate(array.length);
  storeElements(type, data, 0, array, { dtype, shape: [array.length] });
  return data;
}

/** Returns true if generated code holds the elements of a payload as bytes. */
function isBytes(payload: AnyElementType["payload"]): boolean {
  return TensorSchema.field[payload].message?.field["array"]?.scalar === ScalarType.BYTES;
}

const memoryOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array =>
  new Uint8Array(buffer, byteOffset, byteLength);

/** Returns the dtype of a payload's case; undefined without a payload and for legacy scalars. */
export function dtypeOfPayload(payload: { readonly case: string | undefined }): DType | undefined {
  return dtypeOfCase.get(payload.case);
}
