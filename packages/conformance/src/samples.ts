// SPDX-License-Identifier: Apache-2.0
import {
  clamp,
  type DType,
  dtypes,
  elementCount,
  type PackedTensor,
  type SpecEntry,
  type SpecTable,
  type Tensor,
  type TensorSpec,
  type Uid,
  type UidTensor,
} from "@dm-env-rpc/tensor-codec";

/** A shape that a spec allows: variable dimensions are 1. */
export function shapeFor(spec: TensorSpec): readonly number[] {
  return spec.shape.map((size) => (size < 0 ? 1 : size));
}

/** A value that a spec allows: zeros, or what is nearest to them within the bounds. */
export function valueFor(spec: TensorSpec): Tensor {
  const shape = shapeFor(spec);
  const data = dtypes[spec.dtype].allocate(elementCount(shape));
  return clamp({ dtype: spec.dtype, shape, data } as Tensor, spec);
}

/** An entry of a step's actions. */
export function act({ uid, spec }: SpecEntry, tensor: PackedTensor = valueFor(spec)): UidTensor {
  return { uid, tensor };
}

/** A value of another dtype of the same shape. */
export function ofAnotherDType(spec: TensorSpec): Tensor {
  const dtype: DType = spec.dtype === "float64" ? "float32" : "float64";
  const shape = shapeFor(spec);
  return { dtype, shape, data: dtypes[dtype].allocate(elementCount(shape)) } as Tensor;
}

/** A UID that is in neither table, beyond 2^53 so that a number does not hold it. */
export function strangeUid(...tables: readonly SpecTable[]): bigint {
  let uid = 2n ** 53n + 1n;
  while (tables.some(({ byUid }) => byUid.has(uid))) uid += 2n;
  return uid;
}

/** The UIDs of a table. */
export function uidsOf({ entries }: SpecTable): Uid[] {
  return entries.map(({ uid }) => uid);
}

/** Values with one element beyond a bound each, for those bounds that leave room in the dtype. */
export function* outOfBounds(spec: TensorSpec): Generator<{ at: number; value: Tensor }> {
  const { range } = dtypes[spec.dtype];
  const least = range?.min ?? -Number.MAX_VALUE;
  const greatest = range?.max ?? Number.MAX_VALUE;
  for (const [bound, beyond] of [
    [spec.min, spec.dtype === "float32" ? -3e38 : least],
    [spec.max, spec.dtype === "float32" ? 3e38 : greatest],
  ] as const) {
    if (bound === undefined) continue;
    const count = elementCount(shapeFor(spec));
    for (let at = 0; at < count; at++) {
      const limit = typeof bound === "object" ? (bound[bound.length === 1 ? 0 : at] ?? 0) : bound;
      if (limit === beyond) continue;
      const value = valueFor(spec);
      const data = value.data.slice();
      data[at] = beyond as never;
      yield { at, value: { ...value, data } as Tensor };
    }
  }
}
