// SPDX-License-Identifier: Apache-2.0
import type { PackedTensor } from "../tensor.ts";
import type { Uid } from "../uid.ts";
import { readFloat32, readFloat64 } from "./fixed.ts";
import type { EntryLayout } from "./layout.ts";
import type { Reader } from "./reader.ts";
import { ARRAY_FIELD, LENGTH_DELIMITED } from "./wire-type.ts";

type LentTensor = PackedTensor<"float32" | "float64" | "int8" | "int32" | "uint8" | "uint32">;

/** An entry of a step whose tensor has one element, which the next step overwrites. */
export interface LentScalar {
  readonly uid: Uid;
  readonly tensor: LentTensor;
}

const ONE_PACKED_FIELD = (ARRAY_FIELD << 3) | LENGTH_DELIMITED;

/** Makes the entry that messages of a layout share; undefined where it is no scalar, or none that is a number. */
export function lentScalar({ uid, dtype, shape }: EntryLayout): LentScalar | undefined {
  if (shape.length > 0) return undefined;
  switch (dtype) {
    case "float32":
      return { uid, tensor: { dtype, shape, data: new Float32Array(1) } };
    case "float64":
      return { uid, tensor: { dtype, shape, data: new Float64Array(1) } };
    case "int8":
      return { uid, tensor: { dtype, shape, data: new Int8Array(1) } };
    case "int32":
      return { uid, tensor: { dtype, shape, data: new Int32Array(1) } };
    case "uint8":
      return { uid, tensor: { dtype, shape, data: new Uint8Array(1) } };
    case "uint32":
      return { uid, tensor: { dtype, shape, data: new Uint32Array(1) } };
    default:
      return undefined;
  }
}

/**
 * Reads a `Tensor.*Array` with one number, as nearly all encoders write it, into a tensor.
 * Returns false when it is anything else, and has read nothing then.
 */
export function readScalar({ source, pos, end }: Reader, { dtype, data }: LentTensor): boolean {
  const size = end - pos - 2;
  if (size < 1 || source[pos] !== ONE_PACKED_FIELD || source[pos + 1] !== size) return false;
  const at = pos + 2;
  let value: number | undefined;
  if (dtype === "float32") value = size === 4 ? readFloat32(source, at) : undefined;
  else if (dtype === "float64") value = size === 8 ? readFloat64(source, at) : undefined;
  else if (size === 1) {
    const byte = source[at] as number;
    // Of a varint more bytes would follow.
    if (byte < 0x80 || dtype === "int8" || dtype === "uint8") value = byte;
  }
  if (value === undefined) return false;
  data[0] = value;
  return true;
}
