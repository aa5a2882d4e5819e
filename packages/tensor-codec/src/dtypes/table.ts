// SPDX-License-Identifier: Apache-2.0
/** The table of dtypes, one line each; types, builders and messages are derived from it. */
export { bool } from "./bool.ts";
export { float32 } from "./float32.ts";
export { float64 } from "./float64.ts";
export { int8 } from "./int8.ts";
export { int32 } from "./int32.ts";
export { int64 } from "./int64.ts";
export { proto } from "./proto.ts";
export { string } from "./string.ts";
export { uint8 } from "./uint8.ts";
export { uint32 } from "./uint32.ts";
export { uint64 } from "./uint64.ts";
