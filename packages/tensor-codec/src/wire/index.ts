// SPDX-License-Identifier: Apache-2.0
/** The bytes of tensors and of the messages of a Process stream. */
export type { CodecOptions } from "./envelope.ts";
export { ownScalars } from "./lent-scalar.ts";
export { decodeMessage } from "./message.ts";
export { createRequestCodec } from "./request.ts";
export { createResponseCodec } from "./response.ts";
export { decodeTensor, encodeTensor } from "./tensor.ts";
