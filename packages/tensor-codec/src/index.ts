// SPDX-License-Identifier: Apache-2.0
/** Tensors, specs and their values; the messages of a Process stream as records. */
export {
  packSettings,
  packTensor,
  type Settings,
  unpackTensor,
} from "./bridge.ts";
export {
  type NamedSpec,
  packSpec,
  packSpecs,
  unpackSpec,
  unpackSpecs,
} from "./bridge-specs.ts";
export { type DiscreteDType, type NumericBuilder, type PlainBuilder, t } from "./build.ts";
export {
  type ArraySpec,
  type BoundedArraySpec,
  type DiscreteArraySpec,
  type DmEnvSpec,
  type DmEnvSpecs,
  fromDmEnvSpec,
  type StringArraySpec,
  toDmEnvSpec,
  toDmEnvSpecs,
} from "./dm-env.ts";
export {
  type BigIntDType,
  type DType,
  type DTypeInfo,
  type DTypeTable,
  dtypeOf,
  dtypes,
  type NumberDType,
  type NumericDType,
  type Scalar,
  type TensorData,
} from "./dtype.ts";
export {
  isTensorError,
  TensorError,
  type TensorErrorFacts,
  type TensorErrorReason,
} from "./errors.ts";
export {
  DEFAULT_MAX_ELEMENTS,
  DEFAULT_MAX_ENTRIES,
  DEFAULT_MAX_STRING_BYTES,
  type Limits,
} from "./limits.ts";
export type {
  Malformed,
  MessageCodec,
  ProcessRequest,
  ProcessResponse,
  StepRequest,
  StepResponse,
  UidTensor,
} from "./messages.ts";
export {
  checkNames,
  flattenSpecs,
  flattenValues,
  type Nested,
  type NestingOptions,
  nestValues,
} from "./nested.ts";
export { type InferredDType, type PackOptions, type PackValue, pack, packFor } from "./pack.ts";
export { type Random, type SampleOptions, sample } from "./sample.ts";
export type {
  Bound,
  Bounds,
  FlatSpecs,
  NestedArray,
  Packable,
  PackableOf,
  PackablesOf,
  Shape,
  Specs,
  TensorSpec,
  ValueOf,
  ValuesOf,
} from "./spec.ts";
export { type SpecEntry, type SpecTable, specTable, tableOf } from "./spec-table.ts";
export { clamp, equalSpecs, equals, validate, zeros } from "./spec-values.ts";
export {
  DmEnvRpcError,
  isDmEnvRpcError,
  packStatus,
  type StatusCode,
  statusCodes,
  unpackStatus,
} from "./status.ts";
export {
  elementCount,
  isVariable,
  type PackedTensor,
  type Tensor,
  tensor,
  type UnsetTensor,
} from "./tensor.ts";
export type { Uid } from "./uid.ts";
export {
  toMessages,
  toNested,
  toScalar,
  toValue,
  type UnpackOptions,
  unpack,
  unpackFor,
} from "./unpack.ts";
export {
  type CodecOptions,
  createRequestCodec,
  createResponseCodec,
  decodeMessage,
  decodeTensor,
  encodeTensor,
} from "./wire/index.ts";
