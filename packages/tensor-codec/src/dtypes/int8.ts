// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** One byte, two's complement. */
export const int8: ElementType<"int8", "int", Int8Array> = {
  dtype: "int8",
  dataType: DataType.INT8,
  payload: "int8s",
  kind: "int",
  bytes: Int8Array.BYTES_PER_ELEMENT,
  range: { min: -128, max: 127 },
  rounding: undefined,
  allocate: (length) => new Int8Array(length),
  holds: (value): value is Int8Array => value instanceof Int8Array || tagOf(value) === "Int8Array",
};
