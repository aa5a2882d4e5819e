// SPDX-License-Identifier: Apache-2.0
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect as connectHttp2,
  type IncomingHttpHeaders,
  type OutgoingHttpHeaders,
} from "node:http2";
import { connect as connectTcp, type Socket } from "node:net";
import {
  createRequestCodec,
  type MessageCodec,
  type ProcessRequest,
} from "@dm-env-rpc/tensor-codec/wire";
import { maxSessionMemoryMb } from "../limits/limits.ts";
import { processPath } from "../stream/process-path.ts";

const codec: MessageCodec<ProcessRequest> = createRequestCodec();

/** Frames bytes as a gRPC message. */
export function frame(body: Uint8Array, flags = 0): Buffer {
  const bytes = Buffer.alloc(5 + body.length);
  bytes[0] = flags;
  bytes.writeUInt32BE(body.length, 1);
  bytes.set(body, 5);
  return bytes;
}

/** Returns the bytes of a request, without a frame. */
export function bytesOf(request: ProcessRequest): Buffer {
  const bytes = Buffer.alloc(codec.size(request));
  codec.write(request, bytes, 0);
  return bytes;
}

/** A call over plain node:http2, which can send bytes that a correct client would not send. */
export interface RawCall extends AsyncDisposable {
  readonly session: ClientHttp2Session;
  readonly socket: Socket;
  readonly http2: ClientHttp2Stream;
  /** Resets the call with CANCEL. */
  cancel(): void;
  /** The headers of the response. */
  readonly response: Promise<IncomingHttpHeaders>;
  /** Trailers, or the headers of a trailers-only response; undefined if neither arrived. */
  readonly trailers: Promise<IncomingHttpHeaders | undefined>;
}

/** Calls Process, or the path in `headers`, and discards the response by default. */
export function rawCall(
  address: string,
  headers: OutgoingHttpHeaders = {},
  options: { readonly read?: boolean | undefined; readonly windowBytes?: number | undefined } = {},
): RawCall {
  const [host, port] = address.split(":");
  const socket = connectTcp({ host: host ?? "", port: Number(port) });
  const session = connectHttp2(`http://${address}`, {
    createConnection: () => socket,
    ...(options.windowBytes === undefined
      ? {}
      : { settings: { initialWindowSize: options.windowBytes } }),
    maxSessionMemory: maxSessionMemoryMb,
  });
  session.on("error", () => {});
  const controller = new AbortController();
  const http2 = session.request(
    {
      ":method": "POST",
      ":path": processPath,
      "content-type": "application/grpc",
      te: "trailers",
      ...headers,
    },
    { signal: controller.signal },
  );
  http2.on("error", () => {});
  let headersSeen: IncomingHttpHeaders | undefined;
  let trailersSeen: IncomingHttpHeaders | undefined;
  http2.on("response", (response) => {
    headersSeen = response;
  });
  http2.on("trailers", (trailers) => {
    trailersSeen = trailers;
  });
  if (options.read !== false) {
    http2.resume();
  }
  return {
    session,
    socket,
    http2,
    cancel: () => controller.abort(),
    response: new Promise((resolve) => http2.once("response", resolve)),
    trailers: new Promise((resolve) =>
      http2.once("close", () =>
        resolve(trailersSeen ?? (headersSeen?.["grpc-status"] ? headersSeen : undefined)),
      ),
    ),
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => {
        if (socket.destroyed) {
          resolve();
        } else {
          socket.once("close", () => resolve());
        }
      });
      session.destroy();
      socket.destroy();
      await closed;
    },
  };
}
