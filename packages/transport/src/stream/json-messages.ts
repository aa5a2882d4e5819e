// SPDX-License-Identifier: Apache-2.0
import { fromJsonString, toBinary, toJsonString } from "@bufbuild/protobuf";
import {
  EnvironmentRequestSchema,
  type EnvironmentResponse,
  EnvironmentResponseSchema,
} from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { Malformed, MessageCodec, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { shorten } from "../internal/shorten.ts";
import { messageOf } from "../internal/thrown.ts";
import type { CallCodecs } from "./call-codecs.ts";
import { toGenerated } from "./generated-messages.ts";

/** Maximum length of a parser's message in an error: it may repeat a value of the request. */
const maxReasonLength = 200;

/** Encodes responses. */
type Encoder = Pick<MessageCodec<ProcessResponse>, "size" | "write">;

const utf8 = new TextDecoder("utf-8", { fatal: true });
const noBytes = new Uint8Array(0);

/**
 * Converts an EnvironmentRequest in protobuf's JSON format to protobuf. Unknown fields are dropped. Returns the error of a
 * message that is not in this format.
 */
export function requestOfJson(
  source: Uint8Array,
  start: number,
  end: number,
): Uint8Array | Malformed {
  try {
    const json = utf8.decode(source.subarray(start, end));
    const request = fromJsonString(EnvironmentRequestSchema, json, { ignoreUnknownFields: true });
    return toBinary(EnvironmentRequestSchema, request);
  } catch (error) {
    return {
      case: "malformed",
      value: new DmEnvRpcError(
        "INVALID_ARGUMENT",
        `expected an EnvironmentRequest in protobuf's JSON format: ${shorten(messageOf(error), maxReasonLength)}`,
        { origin: "client", cause: error },
      ),
    };
  }
}

/** Returns the JSON of a response. Leaves out the details of an error if this program does not know their types. */
function jsonOf(message: EnvironmentResponse): string {
  try {
    return toJsonString(EnvironmentResponseSchema, message);
  } catch (error) {
    if (message.payload.case !== "error" || message.payload.value.details.length === 0) {
      throw error;
    }
    message.payload.value.details = [];
    return toJsonString(EnvironmentResponseSchema, message);
  }
}

/** Encodes responses in protobuf's JSON format. */
export function jsonResponses({
  response: codec,
  checkResponse,
}: Pick<CallCodecs, "response" | "checkResponse">): Encoder {
  /** The message that `size` has measured. */
  let json: Uint8Array = noBytes;
  return {
    size(response) {
      const { message } = toGenerated(codec, EnvironmentResponseSchema, response, checkResponse);
      json = new TextEncoder().encode(jsonOf(message));
      return json.length;
    },
    write(_response, target, offset) {
      const end = offset + json.length;
      target.set(json, offset);
      json = noBytes;
      return end;
    },
  };
}
