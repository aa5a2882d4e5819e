// SPDX-License-Identifier: Apache-2.0
import {
  createRequestCodec,
  createResponseCodec,
  type ProcessRequest,
} from "@dm-env-rpc/tensor-codec/wire";
import type { CallCodecs } from "@dm-env-rpc/transport";

/** Bytes in the place of an EnvironmentRequest, sent as they are; over gRPC only. */
export interface RawRequest {
  readonly case: "raw bytes";
  readonly value: Uint8Array;
}

/** Bytes to send where a request belongs. */
export function rawRequest(...parts: readonly (readonly number[] | Uint8Array)[]): RawRequest {
  return { case: "raw bytes", value: Uint8Array.from(parts.flatMap((part) => [...part])) };
}

/** Passes raw bytes through a stream whose type knows requests only; `codecsWithRaw` finds them again. */
export function toRequest(request: ProcessRequest | RawRequest): ProcessRequest {
  return request as ProcessRequest;
}

/** The codecs of a stream, which let raw bytes through. */
export function codecsWithRaw(): CallCodecs {
  const codec = createRequestCodec();
  const rawOf = (request: ProcessRequest): Uint8Array | undefined => {
    const maybe = request as ProcessRequest | RawRequest;
    return maybe.case === "raw bytes" ? maybe.value : undefined;
  };
  return {
    request: {
      size: (request) => rawOf(request)?.length ?? codec.size(request),
      write(request, target, offset) {
        const raw = rawOf(request);
        if (raw === undefined) {
          return codec.write(request, target, offset);
        }
        target.set(raw, offset);
        return offset + raw.length;
      },
      read: (source, start, end) => codec.read(source, start, end),
    },
    response: createResponseCodec(),
  };
}
