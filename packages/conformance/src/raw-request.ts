// SPDX-License-Identifier: Apache-2.0
import {
  createRequestCodec,
  createResponseCodec,
  type ProcessRequest,
} from "@dm-env-rpc/tensor-codec/wire";
import type { CallCodecs } from "@dm-env-rpc/transport";

/** Raw bytes sent instead of an EnvironmentRequest; gRPC only. */
export interface RawRequest {
  readonly case: "raw bytes";
  readonly value: Uint8Array;
}

/** Makes a raw request from parts. */
export function rawRequest(...parts: readonly (readonly number[] | Uint8Array)[]): RawRequest {
  return { case: "raw bytes", value: Uint8Array.from(parts.flatMap((part) => [...part])) };
}

/** Wraps a raw request as a ProcessRequest; `codecsWithRaw` unwraps it. */
export function toRequest(request: ProcessRequest | RawRequest): ProcessRequest {
  return request as ProcessRequest;
}

/** Returns the codecs of a stream that also write raw requests. */
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
