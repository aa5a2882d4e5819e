// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** Single precision, IEEE 754 binary32: numbers are rounded to it. */
export const float32: ElementType<"float32", "float", Float32Array> = {
  dtype: "float32",
  dataType: DataType.FLOAT,
  payload: "floats",
  kind: "float",
  bytes: Float32Array.BYTES_PER_ELEMENT,
  range: undefined,
  rounding: { round: Math.fround, overflow: 2 ** 128 - 2 ** 103 },
  allocate: (length) => new Float32Array(length),
  holds: (value): value is Float32Array =>
    value instanceof Float32Array || tagOf(value) === "Float32Array",
};
