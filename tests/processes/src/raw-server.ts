// SPDX-License-Identifier: Apache-2.0
import { createServer, type ServerHttp2Session, type ServerHttp2Stream } from "node:http2";
import {
  createRequestCodec,
  createResponseCodec,
  type ProcessRequest,
  type ProcessResponse,
} from "@dm-env-rpc/tensor-codec/wire";
import { grpcFrame } from "./protobuf-fields.ts";

/**
 * A server of the protocol that shares only the codec with this repository's servers, and can send
 * invalid messages.
 */
export interface RawServer extends AsyncDisposable {
  readonly address: string;
  readonly port: number;
  /** Cuts every connection and continues to listen. */
  cut(): void;
  /** Cuts every connection and stops listening, as a crash does. */
  crash(): void;
}

/** Answers a request; `stream` allows sending raw bytes. */
export type RawAnswer = (
  request: ProcessRequest,
  stream: ServerHttp2Stream,
) => ProcessResponse | "silence";

/** Listens on a port of 127.0.0.1. */
export async function rawServer(answer: () => RawAnswer, port = 0): Promise<RawServer> {
  const sessions = new Set<ServerHttp2Session>();
  const server = createServer();
  server.on("session", (session) => {
    sessions.add(session);
    session.on("close", () => sessions.delete(session)).on("error", () => undefined);
  });
  server.on("stream", (stream) => serveStream(stream, answer()));
  await new Promise<void>((resolve) => server.listen(port, "127.0.0.1", resolve));
  const bound = server.address();
  const cut = (): void => {
    for (const session of sessions) {
      session.destroy();
    }
  };
  const crash = (): void => {
    server.close();
    cut();
  };
  const boundPort = typeof bound === "object" && bound !== null ? bound.port : 0;
  return {
    address: `127.0.0.1:${boundPort}`,
    port: boundPort,
    cut,
    crash,
    [Symbol.asyncDispose]: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        cut();
      }),
  };
}

/** Encodes a response with gRPC's prefix. */
export function framed(response: ProcessResponse): Buffer {
  const codec = createResponseCodec();
  const bytes = Buffer.alloc(codec.size(response));
  codec.write(response, bytes, 0);
  return grpcFrame(bytes);
}

function serveStream(stream: ServerHttp2Stream, answer: RawAnswer): void {
  const codec = createRequestCodec();
  let bytes = Buffer.alloc(0);
  stream.on("error", () => undefined);
  stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
  stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
  stream.on("end", () => stream.end());
  stream.on("data", (chunk: Buffer) => {
    bytes = Buffer.concat([bytes, chunk]);
    while (bytes.length >= 5 && bytes.length >= 5 + bytes.readUInt32BE(1)) {
      const end = 5 + bytes.readUInt32BE(1);
      const request = codec.read(bytes, 5, end);
      bytes = bytes.subarray(end);
      if (request.case === "malformed") {
        throw request.value;
      }
      const response = answer(request, stream);
      if (response !== "silence") {
        stream.write(framed(response));
      }
    }
  });
}
