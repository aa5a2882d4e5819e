// SPDX-License-Identifier: Apache-2.0
import {
  createRequestCodec,
  createResponseCodec,
  type MessageCodec,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";

/** The codecs of both directions of a Process call. */
export interface CallCodecs {
  readonly request: MessageCodec<ProcessRequest>;
  readonly response: MessageCodec<ProcessResponse>;
}

/** Creates tensor-codec's codecs with their default limits. */
export function defaultCodecs(): CallCodecs {
  return { request: createRequestCodec(), response: createResponseCodec() };
}
