// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders } from "node:http";
import {
  type CallProtocol,
  callProtocolOf,
  deadlinePassed,
  endsInTrailers,
  jsonProtocolOf,
} from "../http2/call-protocols.ts";
import { trailersOf } from "../http2/grpc-status.ts";
import { fromConnectError } from "../internal/connect-errors.ts";
import type { ByteExchange } from "./byte-exchanges.ts";
import type { ByteStream } from "./listen-options.ts";

/** Maximum size of the one message in a request, in bytes. */
const maxRequestBytes = 64 * 1024;

/** Headers of compression. Connect's own handler answers the requests that have one of them. */
const unsupportedHeaders = ["grpc-encoding", "connect-content-encoding", "content-encoding"];

/** The byte streams of a method. */
export interface ByteStreams {
  /** Answers requests in protobuf. */
  readonly binary: ByteStream | undefined;
  /** Answers requests in JSON. */
  readonly json: ByteStream | undefined;
}

/** A byte stream that answers a request, and the protocol of its answer. */
export interface ByteAnswer {
  readonly stream: ByteStream;
  readonly protocol: CallProtocol;
}

/**
 * Returns the byte stream that answers a request. Returns undefined if the method has none for the request's format, or if
 * the request may be compressed: Connect's own handler must answer such a request.
 */
export function byteAnswerOf(
  { binary, json }: ByteStreams,
  httpVersion: 1 | 2,
  method: string | undefined,
  headers: IncomingHttpHeaders,
): ByteAnswer | undefined {
  const inBinary = binary && callProtocolOf(headers);
  const protocol = inBinary ?? (json && jsonProtocolOf(headers));
  const stream = inBinary === undefined ? json : binary;
  const isSupported =
    method === "POST" &&
    stream !== undefined &&
    protocol !== undefined &&
    (httpVersion === 2 || !endsInTrailers(protocol)) &&
    unsupportedHeaders.every((name) => headers[name] === undefined);
  return isSupported ? { stream, protocol } : undefined;
}

/**
 * Answers a call with a byte stream.
 *
 * @param timeoutMs Time after which the call ends with DEADLINE_EXCEEDED; undefined if it has no deadline.
 */
export async function answerInBytes(
  { stream, protocol }: ByteAnswer,
  exchange: ByteExchange,
  timeoutMs: number | undefined,
): Promise<void> {
  const end = (failure?: Error): void => {
    if (exchange.isGone) {
      return; // A flood abandons thousands of calls, and it takes time to encode the end of each.
    }
    const last = protocol.end(failure);
    exchange.end(last, last === undefined ? trailersOf(failure) : {});
  };
  const deadline =
    timeoutMs === undefined
      ? undefined
      : setTimeout(() => end(deadlinePassed(timeoutMs)), timeoutMs).unref();
  try {
    const request = await exchange.read(maxRequestBytes);
    if (!exchange.isGone) {
      await stream(request, exchange);
    }
    end();
  } catch (error) {
    end(fromConnectError(error, "server"));
  } finally {
    clearTimeout(deadline);
  }
}
