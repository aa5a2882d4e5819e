// SPDX-License-Identifier: Apache-2.0
import {
  createResponseCodec,
  defaultMaxMessageWork,
  type MessageCodec,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";
import type { CallCodecs } from "../stream/call-codecs.ts";
import { encoded } from "../websocket/websocket-stream.ts";

/** Reads responses that are to be converted. Its budget of work is that of a request, because a stranger may have made them. */
const budgeted = createResponseCodec({ maxMessageWork: defaultMaxMessageWork });

/**
 * Codecs whose messages are undecoded bytes, valid until the receiver's handler returns: for a program that forwards
 * messages without reading them.
 */
export const rawCodecs: CallCodecs = {
  request: rawCodec<ProcessRequest>(),
  response: rawCodec<ProcessResponse>(),
  checkResponse(bytes) {
    const response = budgeted.read(bytes, 0, bytes.length);
    if (response.case === "malformed") {
      throw response.value;
    }
  },
};

function rawCodec<T>(): MessageCodec<T> {
  const raw: MessageCodec<Uint8Array> = {
    size: (bytes) => bytes.length,
    write(bytes, target, offset) {
      target.set(bytes, offset);
      return offset + bytes.length;
    },
    read: (source, start, end) => source.subarray(start, end),
  };
  return raw as unknown as MessageCodec<T>;
}

/** Encodes a response, for a stream whose messages are bytes. */
export function rawResponse(response: ProcessResponse): ProcessResponse {
  const bytes = encoded(response, createResponseCodec());
  return rawCodecs.response.read(bytes, 0, bytes.length) as ProcessResponse;
}
