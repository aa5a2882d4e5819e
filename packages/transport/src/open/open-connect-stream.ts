// SPDX-License-Identifier: Apache-2.0
import { type ClientHttp2Stream, constants, type OutgoingHttpHeaders } from "node:http2";
import { createClient, type Transport } from "@connectrpc/connect";
import {
  Environment,
  type EnvironmentRequest,
  EnvironmentRequestSchema,
  type EnvironmentResponse,
  EnvironmentResponseSchema,
} from "@dm-env-rpc/protocol";
import { DmEnvRpcError } from "@dm-env-rpc/tensor-codec";
import type { ProcessRequest, ProcessResponse } from "@dm-env-rpc/tensor-codec/wire";
import { IterableStream } from "../connect/iterable-stream.ts";
import { tooLargeForConnect } from "../connect/too-large.ts";
import { fromConnectError, toConnectError } from "../internal/connect-errors.ts";
import { defaultMaxMessageBytes, highWaterBytes } from "../limits/limits.ts";
import { type Address, parseAddress, requestUrl } from "../stream/address.ts";
import { defaultCodecs } from "../stream/call-codecs.ts";
import { fromGenerated, toGenerated } from "../stream/generated-messages.ts";
import { type ClientConnection, openConnection } from "./client-connection.ts";
import { checkedMetadata } from "./metadata.ts";
import type { OpenOptions } from "./open-options.ts";
import { type OpenedStream, openedStream } from "./opened-stream.ts";

/** Options of `openConnectStream`. */
export interface OpenConnectOptions extends OpenOptions {
  /** Protocol over HTTP/2. Default `connect`. */
  readonly protocol?: "connect" | "grpc-web" | undefined;
}

/**
 * Opens a Process stream over a new connection, with the Connect or the gRPC-Web protocol,
 * for servers behind a proxy that does not forward gRPC. The stream is slower than that of `openStream`, and behaves
 * like it in all other ways.
 *
 * @throws DmEnvRpcError as `openStream` does.
 */
export async function openConnectStream(
  address: string,
  options: OpenConnectOptions = {},
): Promise<OpenedStream> {
  const parsed = parseAddress(address);
  if (parsed.carrier === "websocket") {
    throw new DmEnvRpcError(
      "INVALID_ARGUMENT",
      `expected an address of HTTP/2 for Connect, received ${parsed.url}; use http:// or https://`,
      { origin: "client" },
    );
  }
  const headers = checkedMetadata(options.metadata);
  const connection = await openConnection(parsed, options);
  const { codecs = defaultCodecs(), maxMessageBytes = defaultMaxMessageBytes } = options;
  let http2: ClientHttp2Stream | undefined;
  const client = createClient(
    Environment,
    await transportOver(connection, parsed, { ...options, maxMessageBytes }, (request) => {
      http2 = request;
    }),
  );
  const controller = new AbortController();
  const stream = new IterableStream<
    ProcessResponse,
    ProcessRequest,
    EnvironmentResponse,
    EnvironmentRequest
  >((outgoing) => client.process(outgoing, { headers, signal: controller.signal }), {
    decode: (message) => fromGenerated(codecs.response, EnvironmentResponseSchema, message),
    encode: (message) => toGenerated(codecs.request, EnvironmentRequestSchema, message),
    onIncomingEnd: async () => "end-of-call",
    errorOf: (error) => {
      const tooLarge = tooLargeForConnect(error, "client", maxMessageBytes);
      if (tooLarge !== undefined) {
        return tooLarge;
      }
      const wasReset = http2 === undefined || http2.rstCode !== constants.NGHTTP2_NO_ERROR;
      return connection.failure() ?? fromConnectError(error, wasReset ? "connection" : "server");
    },
    highWaterBytes: () => highWaterBytes,
    onDone: (error) => {
      controller.abort(error && toConnectError(error));
      // Connect leaves its request open if the server ends the call first.
      setImmediate(() => http2?.close());
      connection.close();
    },
    endsCall: false,
  });
  // A paused stream does not read, so it would not notice that the connection has closed.
  connection.closed.then(
    () => stream.finish(connection.failure()),
    () => {},
  );
  return openedStream(stream, parsed, connection.disconnect);
}

/** Creates Connect's transport over an open connection. */
async function transportOver(
  connection: ClientConnection,
  address: Address,
  options: OpenConnectOptions & { readonly maxMessageBytes: number },
  onRequest: (http2: ClientHttp2Stream) => void,
): Promise<Transport> {
  const { createConnectTransport, createGrpcWebTransport } = await import(
    "@connectrpc/connect-node"
  );
  const transport = {
    baseUrl: requestUrl(address),
    httpVersion: "2" as const,
    acceptCompression: [],
    readMaxBytes: options.maxMessageBytes,
    sessionManager: {
      authority: new URL(requestUrl(address)).origin,
      request: async (method: string, path: string, headers: OutgoingHttpHeaders) => {
        const request = { ...headers, ":method": method, ":path": path };
        const http2 = connection.session.request(request);
        onRequest(http2);
        return http2;
      },
      notifyResponseByteRead: () => {},
    },
  };
  return options.protocol === "grpc-web"
    ? createGrpcWebTransport(transport)
    : createConnectTransport(transport);
}
