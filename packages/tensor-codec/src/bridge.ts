// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type Tensor as TensorMessage, TensorSchema } from "@dm-env-rpc/protocol";
import { type DType, dtypes, type TensorData } from "./dtype.ts";
import { storeElements } from "./elements.ts";
import { TensorError } from "./errors.ts";
import { flattenSpecs, flattenValues, type NestingOptions, setOwn } from "./nested.ts";
import { type PackValue, pack, packFor } from "./pack.ts";
import type { Specs } from "./spec.ts";
import type { PackedTensor } from "./tensor.ts";

/** The payload of a generated Tensor. */
export type TensorPayload = TensorMessage["payload"];

/** The case of the payload that each dtype has. */
const caseOf = {
  float32: "floats",
  float64: "doubles",
  int8: "int8s",
  int32: "int32s",
  int64: "int64s",
  uint8: "uint8s",
  uint32: "uint32s",
  uint64: "uint64s",
  bool: "bools",
  string: "strings",
  proto: "protos",
} as const satisfies Record<DType, TensorPayload["case"]>;

const dtypeOfCase = new Map<string | undefined, DType>(
  Object.entries(caseOf).map(([dtype, name]) => [name, dtype as DType]),
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
 * variable dimension or spread a single element. Data is copied, bytes excepted.
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
  const array =
    data instanceof Int8Array
      ? new Uint8Array(data.buffer, data.byteOffset, data.length)
      : dtype === "uint8"
        ? data
        : dtype === "bool"
          ? Array.from(data as Uint8Array, (value) => value !== 0)
          : Array.from<unknown>(data);
  return {
    case: caseOf[dtype],
    value: { $typeName: `dm_env_rpc.v1.Tensor.${messageOf[dtype]}`, array },
  } as TensorPayload;
}

/** The elements of a payload that is of a dtype. */
export function dataOf(dtype: DType, payload: { readonly value?: unknown }): TensorData {
  const { array } = payload.value as { array: ArrayLike<unknown> };
  if (array instanceof Uint8Array) {
    return dtype === "int8" ? new Int8Array(array.buffer, array.byteOffset, array.length) : array;
  }
  const data = dtypes[dtype].allocate(array.length);
  storeElements(data, 0, array, { dtype, shape: [array.length], name: undefined });
  return data;
}

const messageOf = {
  float32: "FloatArray",
  float64: "DoubleArray",
  int8: "Int8Array",
  int32: "Int32Array",
  int64: "Int64Array",
  uint8: "Uint8Array",
  uint32: "Uint32Array",
  uint64: "Uint64Array",
  bool: "BoolArray",
  string: "StringArray",
  proto: "ProtoArray",
} as const satisfies Record<DType, string>;

/** The dtype of a payload's case; undefined for none and for legacy scalars. */
export function dtypeOfPayload(payload: { readonly case: string | undefined }): DType | undefined {
  return dtypeOfCase.get(payload.case);
}

/** A nested record of settings, each a value that `pack` takes. */
export interface Settings {
  readonly [name: string]: PackValue | Settings | undefined;
}

/**
 * Settings as the requests carry them: nested names joined with `.`. A setting that
 * `specs` has is packed for its spec and checked; another by its value's own type.
 * What is `undefined` is left out.
 *
 * @throws TensorError naming the setting.
 */
export function packSettings(
  settings: Settings,
  specs: Specs = {},
  options: NestingOptions = {},
): Record<string, TensorMessage> {
  const known = flattenSpecs(specs, options);
  const packed: Record<string, TensorMessage> = {};
  for (const [name, value] of Object.entries(flattenValues(settings, options))) {
    const spec = Object.hasOwn(known, name) ? known[name] : undefined;
    const tensor =
      spec === undefined ? pack(value as PackValue, { name }) : packFor(value, spec, name);
    setOwn(packed, name, packTensor(tensor));
  }
  return packed;
}
