// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** Four bytes, two's complement. */
export const int32: ElementType<"int32", "int", Int32Array> = {
  dtype: "int32",
  dataType: DataType.INT32,
  payload: "int32s",
  kind: "int",
  bytes: Int32Array.BYTES_PER_ELEMENT,
  range: { min: -2147483648, max: 2147483647 },
  rounding: undefined,
  allocate: (length) => new Int32Array(length),
  holds: (value): value is Int32Array =>
    value instanceof Int32Array || tagOf(value) === "Int32Array",
};
