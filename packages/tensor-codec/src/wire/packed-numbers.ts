// SPDX-License-Identifier: Apache-2.0
import type { DType } from "../dtype.ts";
import type { PackedTensor } from "../tensor.ts";
import { writeBools, writeBytes, writeFloats } from "./array-writer.ts";
import { writeFloat32, writeFloat64 } from "./fixed.ts";
import { varints64Size, varintsSize, writeVarints, writeVarints64 } from "./varints.ts";

/** A tensor whose elements lie packed, one behind the other. */
export type PackedNumbers = PackedTensor<Exclude<DType, "string" | "proto">>;

/** The bytes of packed elements. */
export function elementsSize(tensor: PackedNumbers): number {
  switch (tensor.dtype) {
    case "float32":
      return tensor.data.length * 4;
    case "float64":
      return tensor.data.length * 8;
    case "int32":
    case "uint32":
      return varintsSize(tensor.data);
    case "int64":
    case "uint64":
      return varints64Size(tensor.data);
    default:
      return tensor.data.length;
  }
}

/**
 * Writes packed elements of `size` bytes, with nothing in front of them; returns the position behind them.
 *
 * Not what `writeArray` goes through: the compiler makes long arrays of integers a fifth slower there.
 */
export function writeElements(
  tensor: PackedNumbers,
  size: number,
  target: Uint8Array,
  pos: number,
): number {
  switch (tensor.dtype) {
    case "float32":
      return writeFloats(tensor.data, target, pos, writeFloat32);
    case "float64":
      return writeFloats(tensor.data, target, pos, writeFloat64);
    case "int32":
    case "uint32":
      return writeVarints(tensor.data, size, target, pos);
    case "int64":
    case "uint64":
      return writeVarints64(tensor.data, target, pos);
    case "bool":
      return writeBools(tensor.data, target, pos);
    default:
      return writeBytes(tensor.data, target, pos);
  }
}
