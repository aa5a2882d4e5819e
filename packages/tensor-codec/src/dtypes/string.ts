// SPDX-License-Identifier: Apache-2.0
import { DataType } from "@dm-env-rpc/protocol";
import type { ElementType } from "./element-type.ts";

/** Strings that can be encoded in UTF-8: no lone surrogates. */
export const string: ElementType<"string", "string", string[]> = {
  dtype: "string",
  dataType: DataType.STRING,
  payload: "strings",
  kind: "string",
  bytes: 0,
  range: undefined,
  rounding: undefined,
  allocate: (length) => new Array<string>(length).fill(""),
  holds: (value): value is string[] => Array.isArray(value),
};
