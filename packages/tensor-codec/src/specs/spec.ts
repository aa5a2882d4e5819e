// SPDX-License-Identifier: Apache-2.0
import type { DType, NumericDType, Scalar, TensorData } from "../dtypes/dtype.ts";
import type { PackedTensor, Tensor } from "../tensors/tensor.ts";

/** Number of elements along each dimension. At most one number is negative: that dimension is variable. */
export type Shape = readonly number[];

/** An inclusive bound: one scalar for all elements, or an array with one bound per element. */
export type Bound<D extends DType> = D extends NumericDType ? Scalar<D> | TensorData<D> : never;

/**
 * The dtype, shape and, if declared, bounds of a tensor. Its name is its key in a record of specs.
 */
export interface TensorSpec<D extends DType = DType, S extends Shape = Shape> {
  readonly dtype: D;
  readonly shape: S;
  readonly min?: Bound<D>;
  readonly max?: Bound<D>;
}

/** Specs by name. Records nest: on the wire, `.` joins the names of all levels. */
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

/** Nested arrays of scalars, one level per dimension. */
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
 * Inclusive bounds: one for all elements, or one per element as a typed array or nested arrays. If both are absent,
 * no bounds are sent; if one is absent, an integer spec sends its dtype's bound for it.
 */
export interface Bounds<D extends NumericDType> {
  readonly min?: Scalar<D> | TensorData<D> | NestedArray<Scalar<D>> | undefined;
  readonly max?: Scalar<D> | TensorData<D> | NestedArray<Scalar<D>> | undefined;
}
