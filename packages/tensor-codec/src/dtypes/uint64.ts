// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** Eight bytes, unsigned: bigints. */
export const uint64: ElementType<"uint64", "bigint", BigUint64Array> = {
  dtype: "uint64",
  dataType: DataType.UINT64,
  payload: "uint64s",
  kind: "bigint",
  bytes: BigUint64Array.BYTES_PER_ELEMENT,
  range: { min: 0n, max: 18446744073709551615n },
  rounding: undefined,
  allocate: (length) => new BigUint64Array(length),
  holds: (value): value is BigUint64Array =>
    value instanceof BigUint64Array || tagOf(value) === "BigUint64Array",
};
