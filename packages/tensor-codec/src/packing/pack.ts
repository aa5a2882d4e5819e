// SPDX-License-Identifier: Apache-2.0
import type { Message, Registry } from "@bufbuild/protobuf";
import {
  type AnyElementType,
  type DType,
  dtypes,
  elementTypes,
  isNumeric,
  type NumericDType,
  type Scalar,
  type TensorData,
} from "../dtypes/dtype.ts";
import { defaultMaxElements, tooManyElements } from "../errors/limits.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { valueText, withArticle } from "../errors/text.ts";
import { checkBounds } from "../specs/bounds.ts";
import type { TensorSpec } from "../specs/spec.ts";
import {
  checkData,
  isAny,
  isElement,
  isUniform,
  repeatElement,
  wrongElement,
} from "../tensors/elements.ts";
import { flattenNested, measureNested } from "../tensors/nested-array.ts";
import { checkShape, resolveShape, sameShape } from "../tensors/shape.ts";
import type { PackedTensor, Tensor } from "../tensors/tensor.ts";
import { elementCount } from "../tensors/tensor.ts";
import { packAny } from "./any.ts";

/** Options of `pack`. */
export interface PackOptions<D extends DType = DType> {
  /** The dtype. Default: inferred from the value's type (see `pack`). */
  readonly dtype?: D | undefined;
  /**
   * The shape. Default: the value's own. One dimension may be negative, to be inferred. A value of
   * one element fills any shape, and is sent as one element.
   */
  readonly shape?: readonly number[] | undefined;
  /** Writes a tensor whose elements are all equal, bit for bit, as one element. Default false. */
  readonly compress?: boolean | undefined;
  /** Name of the spec or setting, for errors. */
  readonly name?: string | undefined;
  /** The schemas of messages to pack as Any. */
  readonly registry?: Registry | undefined;
  /** Maximum number of elements. Default 2^24. */
  readonly maxElements?: number | undefined;
}

/** Values that `pack` accepts: tensors, typed arrays, scalars, messages, and nested arrays of scalars. */
export type PackValue =
  | PackedTensor
  | TensorData
  | Uint8ClampedArray
  | Scalar
  | Message
  | readonly PackValue[];

/** Settings by name. Records nest. */
export interface Settings {
  readonly [name: string]: PackValue | Settings | undefined;
}

/** The dtype that `pack` infers from a value's type; any dtype for arrays nested deeper than eight. */
export type InferredDType<V, Depth extends readonly unknown[] = []> = V extends {
  readonly dtype: infer D extends DType;
}
  ? D
  : V extends readonly (infer Row)[]
    ? Depth["length"] extends 8
      ? DType
      : InferredDType<Row, readonly [...Depth, unknown]>
    : DTypeOfValue<V>;

/** The dtype that `pack` infers from a scalar, message or typed array; any dtype if the type does not determine it. */
type DTypeOfValue<V> = V extends number
  ? "float64"
  : V extends bigint
    ? "int64"
    : V extends boolean
      ? "bool"
      : V extends string
        ? "string"
        : V extends { readonly [Symbol.toStringTag]: infer Tag extends keyof ArrayDTypes }
          ? ArrayDTypes[Tag]
          : V extends Message
            ? "proto"
            : DType;

/** Options that change neither the shape of a value nor its number of elements. */
type AsIs<O> = Omit<O, "shape" | "compress"> & {
  readonly shape?: undefined;
  readonly compress?: undefined;
};

/**
 * Result of packing a value in its own shape: a `PackedTensor` if the value is a packed tensor that need not be a
 * `Tensor`, else a `Tensor`.
 */
type PackedAsIs<V, D extends DType> = V extends PackedTensor
  ? V extends Tensor
    ? Tensor<D>
    : PackedTensor<D>
  : Tensor<D>;

/** The dtype of each typed array, by its tag. */
type ArrayDTypes = {
  [D in NumericDType as TensorData<D>[typeof Symbol.toStringTag]]: D;
} & { Uint8ClampedArray: "uint8" };

/**
 * Packs a value into a tensor.
 *
 * Without the option `dtype`, the dtype follows from the value's type, never from its magnitude: number →
 * float64, bigint → int64, boolean → bool, string → string, message → proto. A typed array has its own dtype
 * (Uint8ClampedArray: uint8). Nothing is cast: a number is not packed as int64, nor 1.5 as int32, nor a
 * Float64Array as float32. Only a JavaScript number is rounded, if the dtype is float32.
 *
 * The tensor borrows typed arrays and the data of tensors; nested arrays are copied.
 *
 * @throws TensorError `dtype`, `value`, `shape`, `limit` or `ragged`, which names the index of the row whose
 *   length differs.
 * @example
 * pack([[1, 2], [3, 4]], { dtype: "int32" }); // shape [2, 2]
 * pack(5n); // a scalar, int64
 * pack(new Float32Array(6), { shape: [2, -1] }); // shape [2, 3], borrows the array
 */
export function pack<V extends PackValue, D extends DType>(
  value: V,
  options: AsIs<PackOptions<D>> & { readonly dtype: D },
): PackedAsIs<V, D>;
export function pack<D extends DType>(
  value: PackValue,
  options: PackOptions<D> & { readonly dtype: D },
): PackedTensor<D>;
export function pack<const V extends PackValue>(
  value: V,
  options?: AsIs<Omit<PackOptions, "dtype">>,
): PackedAsIs<V, InferredDType<V>>;
export function pack<const V extends PackValue>(
  value: V,
  options?: Omit<PackOptions, "dtype">,
): PackedTensor<InferredDType<V>>;
export function pack(value: PackValue, options: PackOptions = {}): PackedTensor {
  const { name, maxElements = defaultMaxElements } = options;
  let packed = fromValue(value, options);
  if (options.shape !== undefined) {
    const { shape } = options;
    checkDimensions(shape, name);
    packed = { ...packed, shape: resolveShape(shape, packed.data.length, maxElements, name) };
  }
  if (options.compress && packed.data.length > 1 && isUniform(packed.data)) {
    packed = { ...packed, data: packed.data.slice(0, 1) } as PackedTensor;
  }
  return packed;
}

/**
 * Packs a value for a spec and checks it against the spec.
 *
 * A scalar fills the shape. A typed array (for strings and protos a flat array) must have as many elements as
 * the shape; a variable dimension is inferred. Nested arrays and tensors must have the shape, except that
 * a packed tensor may have one element for all, or one negative dimension.
 *
 * The tensor borrows typed arrays and the data of tensors.
 *
 * @throws TensorError naming `name`: `dtype`, `shape`, `ragged`, `value`, `bounds` or `limit`.
 * @example
 * packFor(3, t.int8({ min: 0, max: 4 }), "move");
 */
export function packFor<D extends DType>(
  value: unknown,
  spec: TensorSpec<D>,
  name: string,
  options?: Pick<PackOptions, "maxElements">,
): PackedTensor<D>;
export function packFor(
  value: unknown,
  spec: TensorSpec,
  name: string,
  options: Pick<PackOptions, "maxElements"> = noOptions,
): PackedTensor {
  const { dtype, shape } = spec;
  const { maxElements = defaultMaxElements } = options;
  const type = elementTypes[dtype];
  if (typeof value !== "object") {
    return fromScalar(type, value, spec, name, maxElements);
  }
  let data: TensorData;
  let resolved: readonly number[];
  if (isTensorLike(value)) {
    if (value.dtype !== dtype) {
      throw wrongDType(dtype, value, name);
    }
    if (!type.holds(value.data)) {
      throw wrongDType(dtype, value.data, name);
    }
    data = value.data;
    if (sameShape(value.shape, shape) && data.length === elementCount(shape)) {
      if (data.length > maxElements) {
        throw tooManyElements(data.length, maxElements, name);
      }
      resolved = shape;
    } else {
      checkDimensions(value.shape, name);
      resolved = resolveShape(value.shape, data.length, maxElements, name);
      checkShape(resolved, shape, name);
    }
  } else if (Array.isArray(value)) {
    const flat = dtype === "string" || dtype === "proto";
    const measured = measureNested(value, name);
    if (flat && measured.shape.length === 1 && shape.length !== 1) {
      data = value;
      resolved = resolveFlat(shape, data.length, name, maxElements);
    } else {
      checkShape(measured.shape, shape, name);
      resolved = measured.shape;
      data = flattenNested(value, dtype, resolved, maxElements, name);
    }
  } else if (type.holds(value)) {
    data = value;
    resolved = resolveFlat(shape, data.length, name, maxElements);
  } else if (dtype === "uint8" && value instanceof Uint8ClampedArray) {
    data = bytesOf(value);
    resolved = resolveFlat(shape, data.length, name, maxElements);
  } else if (dtype === "proto") {
    return fromScalar(type, value, spec, name, maxElements);
  } else {
    throw wrongDType(dtype, value, name);
  }
  checkData(type, data, resolved, name);
  checkBounds(data, resolved, spec, name);
  return { dtype, shape: resolved, data } as Tensor;
}

/** Packs a scalar for a spec. If the spec has dimensions, the scalar fills them. */
function fromScalar(
  type: AnyElementType,
  value: unknown,
  spec: TensorSpec,
  name: string | undefined,
  maxElements: number,
): Tensor {
  const { dtype, shape } = spec;
  if (!isElement(type, value)) {
    throw wrongElement(value, 0, { dtype, shape: scalarShape, name });
  }
  let data = type.allocate(1);
  data[0] = dtype === "bool" ? (value ? 1 : 0) : (value as never);
  if (spec.min !== undefined || spec.max !== undefined) {
    checkBounds(data, shape, spec, name);
  }
  if (shape.length === 0) {
    return { dtype, shape: scalarShape, data } as Tensor;
  }
  const resolved = resolveShape(shape, 1, maxElements, name);
  const count = elementCount(resolved);
  if (count !== 1) {
    data = repeatElement(data, dtype, count);
  }
  return { dtype, shape: resolved, data } as Tensor;
}

const scalarShape: readonly number[] = Object.freeze([]);
const noOptions = Object.freeze({});

/** Resolves a spec's shape for flat data, which must have as many elements: a single one does not fill the shape. */
function resolveFlat(
  shape: readonly number[],
  length: number,
  name: string,
  maxElements: number,
): readonly number[] {
  const resolved = resolveShape(shape, length, maxElements, name);
  if (elementCount(resolved) !== length) {
    throw new TensorError({
      reason: "shape",
      name,
      expected: `${elementCount(resolved)} elements`,
      received: `${length}`,
      remedy: "give a scalar to fill the shape",
    });
  }
  return resolved;
}

function fromValue(value: PackValue, options: PackOptions): PackedTensor {
  const { name, maxElements = defaultMaxElements } = options;
  if (isTensorLike(value)) {
    if (!Object.hasOwn(dtypes, value.dtype)) {
      throw wrongDType(options.dtype, value, name);
    }
    const dtype = options.dtype ?? (value.dtype as DType);
    if (dtype !== value.dtype || !dtypes[dtype].holds(value.data)) {
      throw wrongDType(dtype, value, name);
    }
    checkDimensions(value.shape, name);
    resolveShape(value.shape, value.data.length, maxElements, name);
    checkData(elementTypes[dtype], value.data, value.shape, name);
    return value as PackedTensor;
  }
  if (value instanceof Uint8ClampedArray) {
    return fromValue(bytesOf(value), options);
  }
  if (ArrayBuffer.isView(value)) {
    const dtype = options.dtype ?? dtypeOfArray(value);
    if (dtype === undefined || !dtypes[dtype].holds(value)) {
      throw wrongDType(options.dtype, value, name);
    }
    const shape = [value.length];
    if (value.length > maxElements) {
      throw tooManyElements(value.length, maxElements, name);
    }
    checkData(elementTypes[dtype], value, shape, name);
    return { dtype, shape, data: value } as PackedTensor;
  }
  const { shape, first } = Array.isArray(value)
    ? measureNested(value, name)
    : { shape: [], first: value };
  const dtype = options.dtype ?? dtypeOfScalar(first);
  if (dtype === undefined) {
    throw wrongDType(undefined, first, name);
  }
  const values = dtype === "proto" ? packMessages(value, options) : value;
  const data = Array.isArray(values)
    ? flattenNested(values, dtype, shape, maxElements, name)
    : fromScalar(elementTypes[dtype], values, { dtype, shape }, name, maxElements).data;
  return { dtype, shape, data } as PackedTensor;
}

/** Packs messages as Anys and leaves Anys unchanged. */
function packMessages(value: unknown, options: PackOptions): unknown {
  if (Array.isArray(value)) {
    return value.map((row) => packMessages(row, options));
  }
  if (!isMessage(value) || isAny(value)) {
    return value;
  }
  const any = packAny(value, options.registry);
  if (any === undefined) {
    throw new TensorError({
      reason: "dtype",
      name: options.name,
      expected: `a registry that has ${value.$typeName}`,
      received: options.registry === undefined ? "none" : "one without it",
      remedy: "give pack { registry: createRegistry(TheSchema) }, or pack it with anyPack",
    });
  }
  return any;
}

function isMessage(value: unknown): value is Message {
  return typeof value === "object" && value !== null && "$typeName" in value;
}

interface TensorLike {
  readonly dtype: string;
  readonly shape: readonly number[];
  readonly data: TensorData;
}

function isTensorLike(value: unknown): value is TensorLike {
  return (
    typeof value === "object" &&
    value !== null &&
    "dtype" in value &&
    "data" in value &&
    "shape" in value &&
    Array.isArray(value.shape)
  );
}

function dtypeOfArray(value: unknown): DType | undefined {
  for (const info of Object.values(dtypes)) {
    if (isNumeric(info.dtype) && info.holds(value)) {
      return info.dtype;
    }
  }
  return undefined;
}

function dtypeOfScalar(value: unknown): DType | undefined {
  switch (typeof value) {
    case "number":
      return "float64";
    case "bigint":
      return "int64";
    case "boolean":
      return "bool";
    case "string":
      return "string";
    default:
      return isMessage(value) ? "proto" : undefined;
  }
}

function checkDimensions(shape: readonly number[], name: string | undefined): void {
  for (const size of shape) {
    if (Number.isInteger(size) && size >= -2147483648 && size <= 2147483647) {
      continue;
    }
    throw new TensorError({
      reason: "shape",
      name,
      expected: "a shape of 32-bit integers",
      received: `dimension ${String(size)}`,
    });
  }
}

function wrongDType(dtype: DType | undefined, value: unknown, name: string | undefined) {
  return new TensorError({
    reason: "dtype",
    name,
    expected:
      dtype === undefined
        ? "a number, bigint, boolean, string, message, typed array of the protocol or nested arrays"
        : `${withArticle(dtype)} tensor`,
    received: valueText(value),
    remedy: dtype === undefined ? "give a dtype" : "nothing is cast: convert it first",
  });
}

const bytesOf = (value: Uint8ClampedArray): Uint8Array =>
  new Uint8Array(value.buffer, value.byteOffset, value.length);
