// SPDX-License-Identifier: Apache-2.0
import type { TensorData } from "../../dtypes/dtype.ts";
import type { PackedTensor } from "../../tensors/tensor.ts";
import type { PackedEncoding } from "../encodings/encoding.ts";
import { arrayTag } from "../primitives/wire-type.ts";
import type { EntryLayout } from "./layout.ts";
import type { UidTensor } from "./step.ts";

/** An entry of a step whose tensor has one element, which the next step overwrites. */
export interface BorrowedScalar {
  readonly entry: UidTensor;
  /** The entry's element. */
  readonly data: TensorData;
  readonly encoding: PackedEncoding<TensorData>;
}

/** Creates the scalar that messages of a layout share; undefined if the entry is not a packed scalar. */
export function borrowedScalar({ uid, type, shape }: EntryLayout): BorrowedScalar | undefined {
  const { dtype, encoding } = type;
  if (shape.length > 0 || !encoding.packed) {
    return undefined;
  }
  const data = type.allocate(1);
  return { entry: { uid, tensor: { dtype, shape, data } as PackedTensor }, data, encoding };
}

/**
 * Copies borrowed scalars, which are valid until the codec's next message (`borrowScalars`).
 */
export function ownScalars(entries: readonly UidTensor[]): UidTensor[] {
  return entries.map((entry) => {
    const { uid, tensor } = entry;
    if (tensor.dtype === "unset" || tensor.shape.length > 0) {
      return entry;
    }
    return { uid, tensor: { ...tensor, data: tensor.data.slice() } as PackedTensor };
  });
}

/**
 * Reads a `Tensor.*Array` of one element from `pos` to `end` into a borrowed scalar. Returns false without reading
 * unless the bytes have the form that nearly all encoders write.
 */
export function readScalar(
  source: Uint8Array,
  pos: number,
  end: number,
  { data, encoding }: BorrowedScalar,
): boolean {
  const size = end - pos - 2;
  if (size < 1 || source[pos] !== arrayTag || source[pos + 1] !== size) {
    return false;
  }
  return encoding.readOne(source, pos + 2, size, data);
}
