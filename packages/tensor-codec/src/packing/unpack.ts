// SPDX-License-Identifier: Apache-2.0
import type { Message, Registry } from "@bufbuild/protobuf";
import type { DType, Scalar } from "../dtypes/dtype.ts";
import { defaultMaxElements, tooManyElements } from "../errors/limits.ts";
import { TensorError } from "../errors/tensor-error.ts";
import { shapeText, withArticle } from "../errors/text.ts";
import { checkBounds } from "../specs/bounds.ts";
import type { NestedArray, TensorSpec, ValueOf } from "../specs/spec.ts";
import { repeatElement } from "../tensors/elements.ts";
import { checkShape, resolveShape, sameShape } from "../tensors/shape.ts";
import {
  elementCount,
  type PackedTensor,
  type Tensor,
  type UnsetTensor,
} from "../tensors/tensor.ts";
import { unpackAny } from "./any.ts";

/** Options of `unpack`. */
export interface UnpackOptions {
  /** Maximum number of elements, checked before a broadcast is allocated. Default 2^24. */
  readonly maxElements?: number | undefined;
  /** Name of the spec or setting, for errors. */
  readonly name?: string | undefined;
}

/**
 * Unpacks a tensor: infers the variable dimension and broadcasts a single element to the shape
 * (overview.md, "Tensors").
 *
 * The tensor borrows the packed tensor's data, which may be a view of the receive buffer; only a
 * broadcast allocates.
 *
 * @throws TensorError `shape`, `limit`, or `dtype` if the payload is unset.
 * @example
 * const { dtype, shape, data } = unpack(decodeTensor(bytes));
 */
export function unpack<D extends DType>(
  packed: PackedTensor<D> | UnsetTensor,
  options?: UnpackOptions,
): Tensor<D>;
export function unpack(packed: PackedTensor | UnsetTensor, options: UnpackOptions = {}): Tensor {
  const { name, maxElements = defaultMaxElements } = options;
  if (packed.dtype === "unset") {
    throw unset("a tensor", name);
  }
  return spread(packed, resolveShape(packed.shape, packed.data.length, maxElements, name));
}

/**
 * Unpacks a tensor and checks it against a spec: dtype, shape and bounds. The tensor borrows the packed
 * tensor's data unless it was broadcast.
 *
 * @throws TensorError naming `name`: `dtype`, `shape`, `bounds` or `limit`.
 */
export function unpackFor<D extends DType>(
  packed: PackedTensor | UnsetTensor,
  spec: TensorSpec<D>,
  name: string,
  options?: Pick<UnpackOptions, "maxElements">,
): Tensor<D>;
export function unpackFor(
  packed: PackedTensor | UnsetTensor,
  spec: TensorSpec,
  name: string,
  options: Pick<UnpackOptions, "maxElements"> = {},
): Tensor {
  const { maxElements = defaultMaxElements } = options;
  if (packed.dtype === "unset") {
    throw unset(`${withArticle(spec.dtype)} tensor`, name);
  }
  const { dtype, shape, data } = packed;
  if (dtype !== spec.dtype) {
    throw new TensorError({
      reason: "dtype",
      name,
      expected: `${withArticle(spec.dtype)} tensor`,
      received: `${withArticle(dtype)} tensor`,
      remedy: `send ${spec.dtype}; nothing is cast`,
    });
  }
  if (sameShape(shape, spec.shape) && data.length === elementCount(shape)) {
    if (data.length > maxElements) {
      throw tooManyElements(data.length, maxElements, name);
    }
    checkBounds(data, shape, spec, name);
    return packed as Tensor;
  }
  const resolved = resolveShape(shape, data.length, maxElements, name);
  checkShape(resolved, spec.shape, name);
  checkBounds(data, resolved, spec, name);
  return spread(packed, resolved);
}

/**
 * Returns the plain value of a tensor: a scalar if the spec's shape is empty (a boolean for bool),
 * else the tensor itself.
 */
export function toValue<T extends TensorSpec>(tensor: Tensor, spec: T): ValueOf<T> {
  return (spec.shape.length === 0 ? scalarAt(tensor, 0) : tensor) as ValueOf<T>;
}

/**
 * Returns the only element of a tensor of any shape.
 *
 * @throws TensorError `shape` unless it has exactly one element.
 */
export function toScalar<D extends DType>(tensor: Tensor<D>): Scalar<D>;
export function toScalar(tensor: Tensor): Scalar {
  if (tensor.data.length !== 1) {
    throw new TensorError({
      reason: "shape",
      expected: "one element",
      received: `${tensor.data.length} of shape ${shapeText(tensor.shape)}`,
    });
  }
  return scalarAt(tensor, 0);
}

/** Copies the elements of a tensor to nested arrays. Returns a scalar for a tensor without dimensions. */
export function toNested<D extends DType>(tensor: Tensor<D>): Scalar<D> | NestedArray<Scalar<D>>;
export function toNested(tensor: Tensor): Scalar | NestedArray<Scalar> {
  const { shape } = tensor;
  const walk = (depth: number, at: number): Scalar | NestedArray<Scalar> => {
    if (depth === shape.length) {
      return scalarAt(tensor, at);
    }
    const stride = elementCount(shape.slice(depth + 1));
    return Array.from({ length: shape[depth] as number }, (_, row) =>
      walk(depth + 1, at + row * stride),
    );
  };
  return walk(0, 0);
}

/**
 * Unpacks the messages in a proto tensor, in the order of the elements. The registry has the schemas of the
 * messages.
 *
 * @throws TensorError `value` for an element of a type that is not in the registry.
 */
export function toMessages(tensor: Tensor<"proto">, registry: Registry): Message[] {
  return tensor.data.map((any) => {
    const message = unpackAny(any, registry);
    if (message === undefined) {
      throw new TensorError({
        reason: "value",
        expected: `a registry that has ${any.typeUrl}`,
        received: "one without it",
      });
    }
    return message;
  });
}

function scalarAt(tensor: Tensor, index: number): Scalar {
  const value = tensor.data[index] as Scalar;
  return tensor.dtype === "bool" ? value !== (0 as Scalar) : value;
}

/** Returns the tensor in its resolved shape. If it has fewer elements, repeats its only element. */
function spread(packed: PackedTensor, shape: readonly number[]): Tensor {
  const { dtype, data } = packed;
  const count = elementCount(shape);
  if (count === data.length) {
    return (shape === packed.shape ? packed : { ...packed, shape }) as Tensor;
  }
  return { dtype, shape, data: repeatElement(data, dtype, count) } as Tensor;
}

function unset(expected: string, name: string | undefined): TensorError {
  return new TensorError({
    reason: "dtype",
    name,
    expected,
    received: "a tensor without payload",
    remedy: "set a payload, which may be empty",
  });
}
