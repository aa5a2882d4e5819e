// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** One byte, unsigned: pixels, mostly. */
export const uint8: ElementType<"uint8", "int", Uint8Array> = {
  dtype: "uint8",
  dataType: DataType.UINT8,
  payload: "uint8s",
  kind: "int",
  bytes: Uint8Array.BYTES_PER_ELEMENT,
  range: { min: 0, max: 255 },
  rounding: undefined,
  allocate: (length) => new Uint8Array(length),
  holds: (value): value is Uint8Array =>
    value instanceof Uint8Array || tagOf(value) === "Uint8Array",
};
