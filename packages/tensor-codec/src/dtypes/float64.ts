// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** Double precision, IEEE 754 binary64: JavaScript's numbers as they are. */
export const float64: ElementType<"float64", "float", Float64Array> = {
  dtype: "float64",
  dataType: DataType.DOUBLE,
  payload: "doubles",
  kind: "float",
  bytes: Float64Array.BYTES_PER_ELEMENT,
  range: undefined,
  rounding: undefined,
  allocate: (length) => new Float64Array(length),
  holds: (value): value is Float64Array =>
    value instanceof Float64Array || tagOf(value) === "Float64Array",
};
