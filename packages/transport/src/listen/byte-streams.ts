// SPDX-License-Identifier: Apache-2.0
import { type ContextValues, createContextValues } from "@connectrpc/connect";
import type {
  UniversalHandlerFn,
  UniversalServerRequest,
  UniversalServerResponse,
} from "@connectrpc/connect/protocol";
import { DmEnvRpcError, type StatusCode } from "@dm-env-rpc/tensor-codec";
import { trailersOf } from "../http2/grpc-status.ts";
import { fromConnectError } from "../internal/connect-errors.ts";
import { envelope, prefixBytes } from "../internal/envelope.ts";
import type { ByteStream } from "./listen-options.ts";

/** Requests are single short messages. */
const maxRequestBytes = 64 * 1024;

const connectEndFlag = 0x02;
const webTrailersFlag = 0x80;

/**
 * Differences between the protocols for a call with one request and many uncompressed responses.
 */
interface Protocol {
  /** Returns the last part of the body; undefined where trailers report how the call ended. */
  end(error: Error | undefined): Uint8Array | undefined;
}

const grpc: Protocol = { end: () => undefined };

const grpcWeb: Protocol = {
  end: (error) => {
    const lines = Object.entries(trailersOf(error)).map(([name, value]) => `${name}: ${value}\r\n`);
    return envelope(new TextEncoder().encode(lines.join("")), webTrailersFlag);
  },
};

const connect: Protocol = {
  end: (error) => {
    const end = error === undefined ? {} : { error: connectErrorOf(error) };
    return envelope(new TextEncoder().encode(JSON.stringify(end)), connectEndFlag);
  },
};

const protocols: ReadonlyMap<string, Protocol> = new Map([
  ["application/grpc", grpc],
  ["application/grpc+proto", grpc],
  ["application/grpc-web", grpcWeb],
  ["application/grpc-web+proto", grpcWeb],
  ["application/connect+proto", connect],
]);

/** Headers of requests that only Connect's own handler supports. */
const beyond = [
  "grpc-encoding",
  "grpc-timeout",
  "connect-content-encoding",
  "connect-timeout-ms",
  "content-encoding",
];

/**
 * Puts a byte stream in front of Connect's handler of the same method. The handler still gets calls
 * in JSON, with compression or with a deadline.
 */
export function inFront(stream: ByteStream, handler: UniversalHandlerFn): UniversalHandlerFn {
  return async (request) => {
    const contentType = request.header.get("content-type") ?? "";
    const protocol = protocols.get(contentType);
    if (
      protocol === undefined ||
      request.method !== "POST" ||
      beyond.some((name) => request.header.has(name))
    ) {
      return await handler(request);
    }
    return answer(stream, protocol, contentType, request);
  };
}

function answer(
  stream: ByteStream,
  protocol: Protocol,
  contentType: string,
  request: UniversalServerRequest,
): UniversalServerResponse {
  const { signal, contextValues = createContextValues() } = request;
  const trailer = new Headers();
  return {
    status: 200,
    header: new Headers({ "content-type": contentType }),
    body: bodyOf(stream, protocol, request, { signal, values: contextValues }, trailer),
    trailer,
  };
}

async function* bodyOf(
  stream: ByteStream,
  protocol: Protocol,
  { body }: UniversalServerRequest,
  call: { readonly signal: AbortSignal; readonly values: ContextValues },
  trailer: Headers,
): AsyncGenerator<Uint8Array, void, undefined> {
  let failure: Error | undefined;
  try {
    yield* stream(await readRequest(body as AsyncIterable<Uint8Array>), call);
  } catch (error) {
    failure = fromConnectError(error, "server");
  }
  const end = protocol.end(failure);
  if (end !== undefined) {
    yield end;
    return;
  }
  for (const [name, value] of Object.entries(trailersOf(failure))) {
    trailer.set(name, value);
  }
}

/** @throws DmEnvRpcError if the body is not exactly one message. */
async function readRequest(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > maxRequestBytes + prefixBytes) {
      throw new DmEnvRpcError(
        "RESOURCE_EXHAUSTED",
        `request too large: expected at most ${maxRequestBytes} bytes, received ${length} or more`,
      );
    }
    chunks.push(chunk);
  }
  const bytes = Buffer.concat(chunks);
  const expected = bytes.length < prefixBytes ? Number.NaN : prefixBytes + bytes.readUInt32BE(1);
  if (bytes[0] !== 0 || bytes.length !== expected) {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `request malformed: expected one message with its length in front, received ${bytes.length} bytes`,
    );
  }
  return bytes.subarray(prefixBytes);
}

/** Connect names the codes as gRPC does, except one. */
function connectErrorOf(error: Error): { readonly code: string; readonly message: string } {
  const { code, message } = fromConnectError(error, "server");
  const name = (code satisfies StatusCode).toLowerCase();
  return { code: name === "cancelled" ? "canceled" : name, message };
}
