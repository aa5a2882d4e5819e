// SPDX-License-Identifier: Apache-2.0
/** The bytes of tensors and of the messages of a Process stream. */
export {
  defaultMaxDimensions,
  defaultMaxElements,
  defaultMaxEntries,
  defaultMaxMessageWork,
  defaultMaxStringBytes,
  type Limits,
} from "../errors/limits.ts";
export { createArrivingRequestCodec } from "./arriving-request.ts";
export { keepBytes } from "./envelope.ts";
export { decodeMessage } from "./message.ts";
export type {
  ArrivingMessage,
  Malformed,
  MessageCodec,
  ProcessRequest,
  ProcessResponse,
} from "./messages.ts";
export type { CodecOptions } from "./primitives/read-options.ts";
export type { Uid } from "./primitives/uid.ts";
export { createRequestCodec } from "./request.ts";
export { createResponseCodec } from "./response.ts";
export { ownScalars } from "./steps/borrowed-scalar.ts";
export type { StepRequest, StepResponse, UidTensor } from "./steps/step.ts";
export { decodeTensor, encodeTensor } from "./tensors/tensor.ts";
