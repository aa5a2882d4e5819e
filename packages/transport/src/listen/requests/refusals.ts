// SPDX-License-Identifier: Apache-2.0
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import type { ConnectError } from "@connectrpc/connect";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import { trailersOf } from "../../http2/grpc-status.ts";
import { toConnectError } from "../../internal/connect-errors.ts";

/**
 * Returns the error for a gRPC call with an unsupported compression; undefined if the compression is
 * supported.
 */
export function unsupportedEncoding(headers: IncomingHttpHeaders): DmEnvRpcError | undefined {
  const encoding = headers["grpc-encoding"];
  if (encoding === undefined || encoding === "identity" || encoding === "gzip") {
    return undefined;
  }
  return new DmEnvRpcError(
    "UNIMPLEMENTED",
    `compression not supported: expected gzip or identity, received ${String(encoding)}`,
  );
}

/** Answers a gRPC call with an error only. */
export function refuseCall(http2: ServerHttp2Stream, error: Error): void {
  http2.respond(
    {
      ":status": 200,
      "content-type": "application/grpc",
      "grpc-accept-encoding": "identity,gzip",
      ...trailersOf(error),
    },
    { endStream: true },
  );
  dropBody(http2);
  http2.close();
}

/**
 * Drops what has not been read of a request, and what is still to come. While bytes of a request are unread, node:http2
 * keeps its stream, which counts for `maxStreamsPerConnection`, even if both sides have ended.
 */
export function dropBody(http2: ServerHttp2Stream): void {
  http2.removeAllListeners("data"); // A request of node:http2's compatibility API would pause the stream.
  http2.resume();
}

/** Drops a request that is not read, and closes its stream after the response; called once the response has been written. */
export function dropRequest(http2: ServerHttp2Stream): void {
  dropBody(http2);
  // In a later turn: if a stream is closed while node:http2 sends its last DATA, node:http2 may send empty frames for ever.
  const closeLater = (): void => void setImmediate(() => http2.close());
  if (http2.writableFinished) {
    closeLater();
  } else {
    http2.once("finish", closeLater);
  }
}

/** Answers a request for an unknown path. */
export function refusePath(http2: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
  const error = new DmEnvRpcError("UNIMPLEMENTED", unknownPath(headers[":path"]));
  refuse(http2, headers, error, 404);
}

/** Answers a request of a page whose origin is not allowed. */
export function refuseOrigin(http2: ServerHttp2Stream, headers: IncomingHttpHeaders): void {
  const error = new DmEnvRpcError("PERMISSION_DENIED", refusedOrigin(headers));
  refuse(http2, headers, error, 403);
}

/** Returns the error text for a page whose origin is not allowed. */
export function refusedOrigin({ origin }: IncomingHttpHeaders): string {
  return `page refused: expected an origin in the server's allowedOrigins, received ${origin?.slice(0, 200)}; add it there`;
}

/** Answers a request above a limit. */
export function refuseForNow(
  http2: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  error: DmEnvRpcError | ConnectError,
): void {
  refuse(http2, headers, error, 429, sharedResponseOf);
}

/** A response to a request that is not a gRPC call. */
interface TextResponse {
  readonly headers: Readonly<Record<string, string>>;
  readonly text: Buffer;
}

/** Responses by their error: requests above a limit share one error. */
const responses = new WeakMap<Error, TextResponse>();

function sharedResponseOf(error: DmEnvRpcError | ConnectError): TextResponse {
  let response = responses.get(error);
  if (response === undefined) {
    response = responseOf(error);
    responses.set(error, response);
  }
  return response;
}

function responseOf(error: DmEnvRpcError | ConnectError): TextResponse {
  const { metadata, rawMessage } = toConnectError(error);
  return { headers: Object.fromEntries(metadata), text: Buffer.from(`${rawMessage}\n`) };
}

/** Answers a gRPC call with the error as its status, and any other request with an HTTP status and the error's text. */
function refuse(
  http2: ServerHttp2Stream,
  headers: IncomingHttpHeaders,
  error: DmEnvRpcError | ConnectError,
  httpStatus: number,
  toResponse: typeof responseOf = responseOf,
): void {
  if (/^application\/grpc($|[+;])/.test(headers["content-type"] ?? "")) {
    refuseCall(http2, error);
    return;
  }
  const response = toResponse(error);
  http2.respond({
    ":status": httpStatus,
    "content-type": "text/plain; charset=utf-8",
    ...response.headers,
  });
  http2.end(response.text);
  dropRequest(http2);
}

/** Returns the error text for a path that nothing serves. */
export function unknownPath(path: string | undefined): string {
  return `nothing is served at ${path?.slice(0, 200)}; check the path and the server's version`;
}
