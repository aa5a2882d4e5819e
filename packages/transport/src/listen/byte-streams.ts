// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http";
import { type CallProtocol, callProtocolOf, endsInTrailers } from "../http2/call-protocols.ts";
import { trailersOf } from "../http2/grpc-status.ts";
import { fromConnectError } from "../internal/connect-errors.ts";
import type { ByteExchange } from "./byte-exchanges.ts";
import type { ByteStream } from "./listen-options.ts";

/** Maximum size of the one message in a request, in bytes. */
const maxRequestBytes = 64 * 1024;

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
): CallProtocol | undefined {
  const protocol = callProtocolOf(headers);
  const isSupported =
    method === "POST" &&
    protocol !== undefined &&
    (httpVersion === 2 || !endsInTrailers(protocol)) &&
    unsupportedHeaders.every((name) => headers[name] === undefined);
  return isSupported ? protocol : undefined;
}

/** Answers a call with a byte stream. */
export async function answerInBytes(
  stream: ByteStream,
  protocol: CallProtocol,
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
