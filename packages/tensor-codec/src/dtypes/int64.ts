// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** Eight bytes, two's complement: bigints. */
export const int64: ElementType<"int64", "bigint", BigInt64Array> = {
  dtype: "int64",
  dataType: DataType.INT64,
  payload: "int64s",
  kind: "bigint",
  bytes: BigInt64Array.BYTES_PER_ELEMENT,
  range: { min: -9223372036854775808n, max: 9223372036854775807n },
  rounding: undefined,
  allocate: (length) => new BigInt64Array(length),
  holds: (value): value is BigInt64Array =>
    value instanceof BigInt64Array || tagOf(value) === "BigInt64Array",
};
