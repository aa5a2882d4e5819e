// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { connect as connectHttp2, createServer } from "node:http2";
import { heldOpen } from "./held-open.ts";
import type { Peer } from "./peer.ts";
import { listenOn } from "./sockets.ts";

const windowBytes = 4 * 1024 * 1024;

/**
 * Connections with one open stream each, on bare node:http2: the minimum that any server on it needs.
 */
export const http2Idle: Peer = {
  async serve() {
    const server = createServer({ settings: { initialWindowSize: windowBytes } });
    server.on("session", (session) => session.setLocalWindowSize(windowBytes));
    server.on("stream", (stream) => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" });
      stream.on("data", () => {});
      stream.on("error", () => {});
    });
    return listenOn(server);
  },

  async connect(_load, port) {
    const session = connectHttp2(`http://127.0.0.1:${port}`);
    const stream = session.request({ ":method": "POST", ":path": "/", te: "trailers" });
    await once(stream, "response");
    return heldOpen(async () => session.destroy());
  },
};
