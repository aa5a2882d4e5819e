// SPDX-License-Identifier: Apache-2.0
/** Tensors, specs and their values; the messages of a Process stream as records. */
export {
  type BigIntDType,
  type DType,
  type DTypeInfo,
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
export type {
  Malformed,
  MessageCodec,
  ProcessRequest,
  ProcessResponse,
  StepRequest,
  StepResponse,
  UidTensor,
} from "./messages.ts";
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
export {
  DmEnvRpcError,
  isDmEnvRpcError,
  packStatus,
  type StatusCode,
  statusCodes,
  unpackStatus,
} from "./status.ts";
export { elementCount, isVariable, type PackedTensor, type Tensor, tensor } from "./tensor.ts";
export type { Uid } from "./uid.ts";
