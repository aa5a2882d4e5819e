// SPDX-License-Identifier: Apache-2.0
import type { Any } from "@bufbuild/protobuf/wkt";
import { DataType } from "@dm-env-rpc/protocol";
import type { ElementType } from "./element-type.ts";

/** Messages of any type, each a google.protobuf.Any. */
export const proto: ElementType<"proto", "proto", Any[]> = {
  dtype: "proto",
  dataType: DataType.PROTO,
  payload: "protos",
  kind: "proto",
  bytes: 0,
  range: undefined,
  rounding: undefined,
  allocate: (length) => Array.from({ length }, emptyAny),
  holds: (value): value is Any[] => Array.isArray(value),
};

const emptyAny = (): Any => ({
  $typeName: "google.protobuf.Any",
  typeUrl: "",
  value: new Uint8Array(0),
});
