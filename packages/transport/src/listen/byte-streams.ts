// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http";
import type { StatusCode } from "@dm-env-rpc/tensor-codec";
import { trailersOf } from "../http2/grpc-status.ts";
import { fromConnectError } from "../internal/connect-errors.ts";
import { envelope } from "../internal/envelope.ts";
import type { ByteExchange } from "./byte-exchanges.ts";
import type { ByteStream } from "./listen-options.ts";

/** Maximum size of the one message in a request, in bytes. */
const maxRequestBytes = 64 * 1024;

const connectEndFlag = 0x02;
const webTrailersFlag = 0x80;

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
export function byteProtocolOf(
  httpVersion: 1 | 2,
  method: string | undefined,
  headers: IncomingHttpHeaders,
): Protocol | undefined {
  const protocol = protocols.get(headers["content-type"] ?? "");
  const isSupported =
    method === "POST" &&
    (protocol !== grpc || httpVersion === 2) &&
    unsupportedHeaders.every((name) => headers[name] === undefined);
  return isSupported ? protocol : undefined;
}

/** Answers a call with a byte stream. */
export async function answerInBytes(
  stream: ByteStream,
  protocol: Protocol,
  exchange: ByteExchange,
): Promise<void> {
  let failure: Error | undefined;
  try {
    await stream(await exchange.read(maxRequestBytes), exchange);
  } catch (error) {
    failure = fromConnectError(error, "server");
  }
  const last = protocol.end(failure);
  exchange.end(last, last === undefined ? trailersOf(failure) : {});
}

/** Connect's names of the codes are gRPC's names in lower case, except for "canceled". */
function connectErrorOf(error: Error): { readonly code: string; readonly message: string } {
  const { code, message } = fromConnectError(error, "server");
  const name = (code satisfies StatusCode).toLowerCase();
  return { code: name === "cancelled" ? "canceled" : name, message };
}
