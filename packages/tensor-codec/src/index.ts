// SPDX-License-Identifier: Apache-2.0
/** Tensors, their specs and their values, for authors of worlds and agents. */
export {
  type BigIntDType,
  type DType,
  type DTypeInfo,
  type DTypeTable,
  dtypes,
  type NumberDType,
  type NumericDType,
  type Scalar,
  type TensorData,
} from "./dtypes/dtype.ts";
export {
  DmEnvRpcError,
  type DmEnvRpcErrorOptions,
  type ErrorOrigin,
  isDmEnvRpcError,
  type StatusCode,
} from "./errors/status.ts";
export {
  isTensorError,
  TensorError,
  type TensorErrorFacts,
  type TensorErrorReason,
} from "./errors/tensor-error.ts";
export {
  type InferredDType,
  type PackOptions,
  type PackValue,
  pack,
  packFor,
  type Settings,
} from "./packing/pack.ts";
export {
  toMessages,
  toNested,
  toScalar,
  toValue,
  type UnpackOptions,
  unpack,
  unpackFor,
} from "./packing/unpack.ts";
export { type DiscreteDType, type NumericBuilder, type PlainBuilder, t } from "./specs/build.ts";
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
} from "./specs/dm-env.ts";
export {
  isDiscrete,
  type LegalActionsSpec,
  legalActions,
  legalActionsName,
} from "./specs/legal-actions.ts";
export {
  checkNames,
  flattenSpecs,
  flattenValues,
  type Nested,
  type NestingOptions,
  nestValues,
} from "./specs/names.ts";
export { type Random, type SampleOptions, sample } from "./specs/sample.ts";
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
} from "./specs/spec.ts";
export { clamp, equalSpecs, equals, validate, zeros } from "./specs/spec-values.ts";
export {
  elementCount,
  isVariable,
  type PackedTensor,
  type Tensor,
  tensor,
  type UnsetTensor,
} from "./tensors/tensor.ts";
