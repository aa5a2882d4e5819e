// SPDX-License-Identifier: Apache-2.0
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import {
  Http2ServerRequest,
  Http2ServerResponse,
  type IncomingHttpHeaders,
  type ServerHttp2Stream,
} from "node:http2";
import type { Socket } from "node:net";
import {
  type ConnectRouter,
  type ContextValues,
  createConnectRouter,
  createContextValues,
} from "@connectrpc/connect";
import {
  universalRequestFromNodeRequest,
  universalResponseToNodeResponse,
} from "@connectrpc/connect-node";
import { setPeer } from "./connect-stream.ts";
import { peerOf } from "./process-call.ts";
import { refusePath } from "./refusals.ts";
import type { ServerConnection } from "./server-connections.ts";

/** What is served beside the gRPC calls of Process. */
export interface RoutesOptions {
  readonly routes: (router: ConnectRouter) => void;
  readonly maxMessageBytes: number;
  /** An HTTP/1.1 connection on which nothing happens for this long is closed; 0 never. */
  readonly idleConnectionMs: number;
  readonly onError: (error: Error) => void;
}

/** Connect's router behind the listener. */
export interface Routes {
  handle(
    http2: ServerHttp2Stream,
    headers: IncomingHttpHeaders,
    rawHeaders: string[],
    connection: ServerConnection,
  ): void;
  /** Takes a TLS connection whose client speaks HTTP/1.1. */
  handleHttp1(socket: Socket): void;
}

/**
 * Serves a Connect router, request by request.
 *
 * node:http2's "request" event would wrap the streams of Process too; so the request and
 * the response are made here, for the streams that need them. Connect's own adapter
 * writes to the console, ours tells `onError`.
 */
export function createRoutes(options: RoutesOptions): Routes {
  const router = createConnectRouter({
    // Compressing a step costs far more than it saves (and would, by default, from 1 KiB on).
    acceptCompression: [],
    readMaxBytes: options.maxMessageBytes,
  });
  options.routes(router);
  const handlers = new Map(router.handlers.map((handler) => [handler.requestPath, handler]));

  const answer = (
    request: IncomingMessage | Http2ServerRequest,
    response: ServerResponse | Http2ServerResponse,
    values: ContextValues,
  ): void => {
    const path = request.url?.split("?", 1)[0] ?? "";
    const handler = handlers.get(path);
    if (handler === undefined) {
      refusePath(response, path, request.headers["content-type"]);
      return;
    }
    run(async () => {
      const reply = await handler(
        universalRequestFromNodeRequest(request, response, undefined, values),
      );
      await universalResponseToNodeResponse(reply, response);
    });
  };
  const run = (work: () => Promise<void>): void => {
    work().catch((error: unknown) => {
      options.onError(error instanceof Error ? error : new Error(String(error)));
    });
  };

  const http1 = createServer((request, response) =>
    answer(request, response, createContextValues()),
  );
  http1.setTimeout(options.idleConnectionMs);
  http1.on("clientError", (error, socket) => {
    options.onError(error);
    socket.destroy();
  });

  return {
    handle(http2, headers, rawHeaders, connection) {
      const request = new Http2ServerRequest(http2, headers, {}, rawHeaders);
      const values = createContextValues();
      setPeer(values, peerOf(connection, headers));
      answer(request, new Http2ServerResponse(http2), values);
      // A response is the end of a call; a client that does not end its request keeps no stream.
      http2.once("wantTrailers", () =>
        setImmediate(() => {
          if (!http2.readableEnded && !http2.closed && !http2.destroyed) {
            http2.close();
          }
        }),
      );
    },
    handleHttp1(socket) {
      http1.emit("connection", socket);
    },
  };
}
