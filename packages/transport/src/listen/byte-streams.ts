// SPDX-License-Identifier: Apache-2.0
import type { IncomingMessage } from "node:http";
import type { Http2ServerRequest } from "node:http2";
import type { ContextValues } from "@connectrpc/connect";
import { DmEnvRpcError, type StatusCode } from "@dm-env-rpc/tensor-codec";
import { trailersOf } from "../http2/grpc-status.ts";
import { fromConnectError } from "../internal/connect-errors.ts";
import { envelope, prefixBytes } from "../internal/envelope.ts";
import type { ByteStream } from "./listen-options.ts";

/** Maximum size of the one message in a request, in bytes. */
const maxRequestBytes = 64 * 1024;

const connectEndFlag = 0x02;
const webTrailersFlag = 0x80;

type Request = IncomingMessage | Http2ServerRequest;

/** The members that node:http's and node:http2's responses have in common, as far as they are used here. */
interface Response {
  statusCode: number;
  readonly headersSent: boolean;
  setHeader(name: string, value: string): unknown;
  removeHeader(name: string): void;
  writeHead(status: number): unknown;
  write(bytes: Uint8Array): boolean;
  addTrailers(trailers: Readonly<Record<string, string>>): void;
  end(): unknown;
  on(event: "drain" | "close", listener: () => void): unknown;
  off(event: "drain" | "close", listener: () => void): unknown;
}

/** The HTTP request and response of a call that a `ByteStream` answers: a function that sends encoded responses. */
export interface BytesCall {
  readonly request: Request;
  readonly body: AsyncIterable<Uint8Array>;
  readonly response: Response;
  readonly values: ContextValues;
}

/** Encodes the end of a call that has one request and many uncompressed responses. */
export interface Protocol {
  /** Returns the last part of the body; undefined if trailers report how the call ended. */
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

/** Headers of compression and deadlines. Connect's own handler answers the requests that have one of them. */
const unsupportedHeaders = [
  "grpc-encoding",
  "grpc-timeout",
  "connect-content-encoding",
  "connect-timeout-ms",
  "content-encoding",
];

/**
 * Returns the protocol in which a byte stream answers a request. Returns undefined if the request is in JSON, may be
 * compressed or has a deadline: Connect's own handler must answer such a request.
 */
export function byteProtocolOf({
  method,
  httpVersionMajor,
  headers,
}: Request): Protocol | undefined {
  const protocol = protocols.get(headers["content-type"] ?? "");
  const isSupported =
    method === "POST" &&
    (protocol !== grpc || httpVersionMajor === 2) &&
    unsupportedHeaders.every((name) => headers[name] === undefined);
  return isSupported ? protocol : undefined;
}

/** Answers a call with a byte stream. */
export async function answerInBytes(
  stream: ByteStream,
  protocol: Protocol,
  { body, request, response, values }: BytesCall,
): Promise<void> {
  const gone = new AbortController();
  response.on("close", () => gone.abort());
  response.statusCode = 200;
  response.setHeader("content-type", request.headers["content-type"] ?? "");
  if (request.httpVersionMajor === 1) {
    // The close of the connection ends the body. Chunked encoding would need no close, but three writes for each
    // response.
    response.setHeader("connection", "close");
    response.removeHeader("transfer-encoding");
  }
  let failure: Error | undefined;
  try {
    await stream(await readRequest(body), {
      values,
      signal: gone.signal,
      send: (framed) => gone.signal.aborted || response.write(framed),
      drained: () => drained(response),
    });
  } catch (error) {
    failure = fromConnectError(error, "server");
  }
  if (gone.signal.aborted) {
    return;
  }
  const end = protocol.end(failure);
  if (end === undefined) {
    if (!response.headersSent) {
      response.writeHead(200); // Trailers can only follow headers.
    }
    response.addTrailers(trailersOf(failure));
  } else {
    response.write(end);
  }
  response.end();
}

/** Resolves when a response next drains or closes. */
function drained(response: Response): Promise<void> {
  return new Promise((resolve) => {
    const settle = (): void => {
      response.off("drain", settle);
      response.off("close", settle);
      resolve();
    };
    response.on("drain", settle);
    response.on("close", settle);
  });
}

/** @throws DmEnvRpcError if the body is not exactly one message, or is too large. */
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

/** Connect's names of the codes are gRPC's names in lower case, except for "canceled". */
function connectErrorOf(error: Error): { readonly code: string; readonly message: string } {
  const { code, message } = fromConnectError(error, "server");
  const name = (code satisfies StatusCode).toLowerCase();
  return { code: name === "cancelled" ? "canceled" : name, message };
}
