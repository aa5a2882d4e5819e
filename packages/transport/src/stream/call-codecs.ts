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
  /**
   * Checks the bytes of a response before it is converted for a client in JSON or over HTTP/1.1, and throws an error for
   * one that is malformed or takes long to decode. Default: responses are not checked, because this program made them.
   */
  readonly checkResponse?: ((bytes: Uint8Array) => void) | undefined;
}

/** Creates tensor-codec's codecs with their default limits. */
export function defaultCodecs(): CallCodecs {
  return { request: createRequestCodec(), response: createResponseCodec() };
}
