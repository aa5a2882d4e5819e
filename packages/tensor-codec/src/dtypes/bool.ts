// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import { type ElementType, tagOf } from "./element-type.ts";

/** Booleans: one byte each in memory, 0 or 1. */
export const bool: ElementType<"bool", "bool", Uint8Array> = {
  dtype: "bool",
  dataType: DataType.BOOL,
  payload: "bools",
  kind: "bool",
  bytes: Uint8Array.BYTES_PER_ELEMENT,
  range: undefined,
  rounding: undefined,
  allocate: (length) => new Uint8Array(length),
  holds: (value): value is Uint8Array =>
    value instanceof Uint8Array || tagOf(value) === "Uint8Array",
};
