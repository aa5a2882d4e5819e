// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** Four bytes, unsigned. */
export const uint32: ElementType<"uint32", "int", Uint32Array> = {
  dtype: "uint32",
  dataType: DataType.UINT32,
  payload: "uint32s",
  kind: "int",
  bytes: Uint32Array.BYTES_PER_ELEMENT,
  range: { min: 0, max: 4294967295 },
  rounding: undefined,
  allocate: (length) => new Uint32Array(length),
  holds: (value): value is Uint32Array =>
    value instanceof Uint32Array || tagOf(value) === "Uint32Array",
};
