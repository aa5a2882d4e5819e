// SPDX-License-Identifier: Apache-2.0
import type { ServerResponse } from "node:http";
import type { Http2ServerResponse, IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { trailersOf } from "./grpc-status.ts";

/** Why a gRPC call's messages can not be read: its compression; undefined when they can. */
export function unsupportedEncoding(headers: IncomingHttpHeaders): ConnectError | undefined {
  const encoding = headers["grpc-encoding"];
  if (encoding === undefined || encoding === "identity" || encoding === "gzip") {
    return undefined;
  }
  return new ConnectError(
    `compression not supported: expected gzip or identity, got ${String(encoding)}`,
    Code.Unimplemented,
  );
}

/** Answers a gRPC call with nothing but an error. */
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
  http2.close();
}

/** Answers a request for a path that nothing serves, in the way its client understands. */
export function refusePath(
  response: ServerResponse | Http2ServerResponse,
  path: string,
  contentType: string | undefined,
): void {
  const text = `nothing is served at ${path.slice(0, 200)}; check the path and the server's version`;
  if (contentType === undefined || !/^application\/grpc($|[+;])/.test(contentType)) {
    response.statusCode = 404;
    response.setHeader("content-type", "text/plain; charset=utf-8");
    response.end(`${text}\n`);
    return;
  }
  const headers = {
    "content-type": "application/grpc",
    ...trailersOf(new ConnectError(text, Code.Unimplemented)),
  };
  response.statusCode = 200;
  for (const [name, value] of Object.entries(headers)) {
    response.setHeader(name, value);
  }
  response.end();
}
