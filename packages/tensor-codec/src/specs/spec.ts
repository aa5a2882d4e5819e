// SPDX-License-Identifier: Apache-2.0
import type { DType, NumericDType, Scalar, TensorData } from "../dtypes/dtype.ts";
import type { PackedTensor, Tensor } from "../tensors/tensor.ts";

/** Elements along each dimension; at most one is negative, which makes it variable. */
export type Shape = readonly number[];

/** An inclusive bound: one scalar for every element, or as many as the spec's shape has. */
export type Bound<D extends DType> = D extends NumericDType ? Scalar<D> | TensorData<D> : never;

/**
 * The dtype, shape and, where declared, bounds of a tensor. Its name is the key that it stands under.
 */
export interface TensorSpec<D extends DType = DType, S extends Shape = Shape> {
  readonly dtype: D;
  readonly shape: S;
  readonly min?: Bound<D>;
  readonly max?: Bound<D>;
}

/** Specs by name; a record in a record nests, which is a `.` in the name on the wire. */
export interface Specs {
  readonly [name: string]: TensorSpec | Specs;
}

/** Specs by their full dotted name. */
export type FlatSpecs = Readonly<Record<string, TensorSpec>>;

/** The value that a spec unpacks to: a plain scalar for an empty shape, else a tensor. */
export type ValueOf<T extends TensorSpec> =
  T extends TensorSpec<infer D, infer S>
    ? S extends readonly []
      ? Scalar<D>
      : number[] extends S
        ? Scalar<D> | Tensor<D>
        : Tensor<D>
    : never;

/** The values of specs, nested like the specs. */
export type ValuesOf<T extends Specs> = {
  -readonly [K in keyof T]: T[K] extends TensorSpec
    ? ValueOf<T[K]>
    : T[K] extends Specs
      ? ValuesOf<T[K]>
      : never;
};

/** Scalars in arrays in arrays, as deep as there are dimensions. */
export type NestedArray<T> = readonly (T | NestedArray<T>)[];

/** Values that can be packed for a spec: a tensor of its dtype, its typed array, a scalar, or nested arrays. */
export type Packable<D extends DType = DType> = D extends DType
  ? PackedTensor<D> | TensorData<D> | Scalar<D> | NestedArray<Scalar<D>>
  : never;

/** Values that can be packed for a spec of a known type. */
export type PackableOf<T extends TensorSpec> =
  T extends TensorSpec<infer D, infer _S> ? Packable<D> : never;

/** Values that can be packed for each of the specs, nested like the specs. */
export type PackablesOf<T extends Specs> = {
  -readonly [K in keyof T]: T[K] extends TensorSpec
    ? PackableOf<T[K]>
    : T[K] extends Specs
      ? PackablesOf<T[K]>
      : never;
};

/**
 * Bounds, inclusive: one for all elements, or one for each as a typed array or
 * nested arrays. A side that is absent is not sent.
 */
export interface Bounds<D extends NumericDType> {
  readonly min?: Scalar<D> | TensorData<D> | NestedArray<Scalar<D>> | undefined;
  readonly max?: Scalar<D> | TensorData<D> | NestedArray<Scalar<D>> | undefined;
}
